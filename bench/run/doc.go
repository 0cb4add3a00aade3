// Package run runs workloads of package spec.
package run
