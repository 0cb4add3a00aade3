// Package lint holds the project's own checks, as tests: that imports follow the floor plan (docs/floors.txt), and that every
// package has a comment that says what it is for.
package lint
