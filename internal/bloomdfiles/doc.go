// Package bloomdfiles reads and writes the data folder of a bloomd: a folder bloomd.NAME for each filter, with its options and a
// file for each layer.
//
//	bloomd.NAME/config.ini       options and figures, as text
//	bloomd.NAME/data.000.mmap    layer 0, data.001.mmap layer 1, …: a head of 512 bytes, then the bits, bit 0 the most significant
//
// A filter is read only if everything that is known of it agrees: the sizes of its files with the options, with each other, with
// their heads and with the text. bloomd itself checks little of this, and denies keys of a file that was cut short.
package bloomdfiles
