// Package bench measures what a guest costs, each thing beside what it is compared with, in one run.
package bench
