// Package bench measures what a guest costs, each against a baseline, in the same run.
package bench
