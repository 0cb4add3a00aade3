// Command bigset keeps very big sets in a data folder, from a shell.
//
//	bigset set add friends paul ringo
//	bigset set ls friends
//
// Its law: standard output has answers and nothing else, so that it can be piped; standard error has what a person should
// read; the exit status is 0, or 1 for what is absent or not verified, or 2 for an error, and an error says what to do next.
// Bytes from outside are not believed: names and elements may be any bytes, tokens are unsealed before they count.
//
// Each subcommand is a file with its flags, its help and what it does with an engine.Store. Begin reading at main.go and
// root.go; store.go opens the store, output.go prints, errors.go turns errors into advice, lines.go and
// set_import.go are the one pipeline.
package main
