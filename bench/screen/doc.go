// Package screen draws on a terminal: lines that take the place of those before them, bars, sparklines, and figures in words. It knows
// nothing of what is drawn.
//
//	Style     what the terminal can show: colours, letters beyond ASCII
//	Screen    the lines that stand there, and how they are redrawn
//	Bytes, Micros, Count    figures as people write them
//
// A Screen sets no mode of the terminal and hides no cursor, so a program that is killed leaves nothing to restore but its last lines.
//
// A Style is a value, and its methods may be called by any goroutine. One goroutine at a time uses a Screen.
package screen
