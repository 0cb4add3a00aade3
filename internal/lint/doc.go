// Package lint holds the project's own checks, as tests: the floor plan's imports (docs/floors.txt), and that every
// package says in a comment what it is for.
package lint
