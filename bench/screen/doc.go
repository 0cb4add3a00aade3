// Package screen draws on a terminal: lines that replace earlier ones, bars, sparklines, and figures as text. It does not know what is
// drawn.
//
//	Style     what the terminal can show: colours, letters beyond ASCII
//	Screen    the lines on the terminal, and how they are redrawn
//	Bytes, Micros, Count    figures as people write them
//
// A Screen sets no mode of the terminal and hides no cursor, so a program that is killed leaves nothing to restore except its last lines.
//
// A Style is a value, and its methods may be called by any goroutine. Only one goroutine at a time may use a Screen.
package screen
