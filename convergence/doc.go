// Package convergence tests whether replicas of a data type converge.
package convergence
