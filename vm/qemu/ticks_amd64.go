//go:build linux

package qemu

import "time"

// counter returns the time stamp counter, which emulated amd64 processors share with the host.
func counter() uint64

const (
	// tickTime is how long the counter is measured. With clock readings less than a microsecond
	// apart, the rate is accurate to 0.01%.
	tickTime = 10 * time.Millisecond
	// tickTries is how often clock and counter are read together, since this program may be
	// preempted in between.
	tickTries = 8
)

// tickRate returns the ticks of the counter per millisecond.
func tickRate() int64 {
	from, begun := reading()
	time.Sleep(tickTime)
	to, ended := reading()
	return int64(float64(to-from) / float64(ended.Sub(begun)) * float64(time.Millisecond))
}

// reading returns the counter and the time at which it was read.
func reading() (value uint64, at time.Time) {
	least := time.Duration(-1)
	for range tickTries {
		before := time.Now()
		v := counter()
		if took := time.Since(before); least < 0 || took < least {
			least, value, at = took, v, before.Add(took/2)
		}
	}
	return value, at
}
