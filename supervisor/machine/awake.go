package machine

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// awakeFor is how long this computer stays awake after the last command: an agent pauses to
// think between two.
const awakeFor = time.Minute

// awakeCheck is how often it looks for commands. No computer sleeps that soon.
const awakeCheck = time.Second

// Awake keeps this computer from sleeping by itself until release is called.
type Awake func() (release func())

// stayAwake keeps this computer awake while commands run in the guest or an operation is in
// progress. A closed lid and a person's command still put it to sleep.
func (s *Machine) stayAwake(awake Awake) {
	var release func()
	every(s.life, awakeCheck, func() {
		s.mu.Lock()
		idle := s.busy == 0 && s.op == nil && time.Since(s.lastUsed) >= awakeFor
		s.mu.Unlock()
		switch {
		case !idle && release == nil:
			release = awake()
		case idle && release != nil:
			release()
			release = nil
		}
	})
	if release != nil {
		release()
	}
}

// caffeinated returns macOS's own program for this, which ends with this process, or nil on
// other systems. A desktop's Linux asks its user instead.
func caffeinated() Awake {
	if runtime.GOOS != "darwin" {
		return nil
	}
	return func() func() { return child("/usr/bin/caffeinate", "-i", "-w", strconv.Itoa(os.Getpid())) }
}

// child starts a program and returns what ends it. A program that does not start is ignored.
func child(name string, args ...string) (end func()) {
	cmd := exec.Command(name, args...)
	if cmd.Start() != nil {
		return func() {}
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
