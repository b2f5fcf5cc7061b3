//go:build linux && !amd64

package qemu

// tickRate is 0 where the counter of translated amd64 processors is another than this one's.
func tickRate() int64 { return 0 }
