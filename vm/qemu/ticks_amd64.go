//go:build linux

package qemu

import "time"

// counter is this processor's time stamp counter, which translated amd64 processors have too.
func counter() uint64

const (
	// tickTime is how long the counter is watched: with it, and clock readings that are less than
	// a microsecond apart, the rate is right to a ten-thousandth.
	tickTime = 10 * time.Millisecond
	// tickTries is how often the two are read together: this program may be held up
	// in between.
	tickTries = 8
)

// tickRate is how often the counter ticks in a millisecond.
func tickRate() int64 {
	from, begun := reading()
	time.Sleep(tickTime)
	to, ended := reading()
	return int64(float64(to-from) / float64(ended.Sub(begun)) * float64(time.Millisecond))
}

// reading is a value of the counter, and when it was read.
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
