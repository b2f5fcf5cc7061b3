package engine

// ShellEnd is how a shell ended that somebody was attached to.
type ShellEnd struct {
	Code  int    // 128 + n after signal n
	Cause string // if it did not end by itself
}
