//go:build linux

package pid1

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// usual is the niceness of what somebody waits for, lowest that of what everything else goes
// before: beside a busy program it gets a sixtieth of a processor.
const usual, lowest = 0, 19

// background is work that everything else goes before until somebody waits for it, who would
// otherwise wait for all that is busy.
type background struct {
	done chan struct{} // closed when it is

	mu      sync.Mutex
	thread  int // that does it; 0 before and after
	awaited bool
}

func newBackground() *background { return &background{done: make(chan struct{})} }

// do does the work, once, on a thread that is of no more use afterwards.
func (b *background) do(work func(), warn func(what string, err error)) {
	runtime.LockOSThread() // never unlocked: it ends with the goroutine
	b.mu.Lock()
	b.thread = unix.Gettid()
	if !b.awaited {
		if err := unix.Setpriority(unix.PRIO_PROCESS, b.thread, lowest); err != nil {
			warn("lower priority", err)
		}
	}
	b.mu.Unlock()
	work()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.thread = 0
	close(b.done)
}

// wait returns when the work is done.
func (b *background) wait() {
	b.mu.Lock()
	b.awaited = true
	if b.thread != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, b.thread, usual) // root may
	}
	b.mu.Unlock()
	<-b.done
}
