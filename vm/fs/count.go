package fs

import (
	"errors"
	"io"
	"math"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// countPause is the minimum pause between walks. It is countShare times the duration of the
	// walk if that is longer, to limit the processor time that a guest with many small files can
	// use.
	countPause = 5 * time.Second
	countShare = 10
	// tooMuch is the size of a subtree that cannot be counted and so is full.
	tooMuch = math.MaxInt64 / 4
	// countBatch is how many entries of a folder are read at a time.
	countBatch = 1024
)

// errTooDeep means that a subtree cannot be counted.
var errTooDeep = errors.New("folders are nested too deeply")

// countLocked starts a walk in the background, unless one is running or ended recently, or the
// device is closed. The caller must hold a reference to the share's folder, as every session does.
func (u *usage) countLocked() {
	if u.walking || u.rules.closed.Load() || time.Now().Before(u.nextWalk) {
		return
	}
	u.walking, u.shrunk, u.grown, u.grownFiles, u.moved = true, 0, 0, 0, false
	share := u.rules.folder.acquire()
	go func() {
		defer share.release()
		start := time.Now()
		bytes, files, err := u.count(share)
		u.shrinking.Lock()
		defer u.shrinking.Unlock()
		defer u.lockNames()()
		u.mu.Lock()
		defer u.mu.Unlock()
		now := time.Now()
		u.walking, u.nextWalk = false, now.Add(max(countPause, countShare*now.Sub(start)))
		if u.again {
			u.again, u.nextWalk = false, time.Time{}
			defer u.countLocked()
		}
		switch {
		case errors.Is(err, errTooDeep):
			u.rules.log.Warn("a subtree is too deep to be counted and is taken for full", "subtree", u.path)
			bytes, files = tooMuch, tooMuch
		case err != nil:
			u.rules.log.Warn("a subtree could not be counted", "subtree", u.path, "err", err)
			return
		}
		for _, t := range u.tracked {
			if t.orphan {
				bytes, files = bytes+t.bytes, files+1
			}
		}
		bytes, files = bytes+u.grown, files+u.grownFiles
		if u.moved {
			bytes, files = max(bytes, u.bytes), max(files, u.files)
		}
		u.bytes, u.files, u.everCounted = bytes, files, true
	}()
}

// count walks the subtree. os.Root keeps it inside the share if folders are renamed meanwhile.
func (u *usage) count(share *descriptor) (bytes, files int64, err error) {
	root, err := share.root()
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	skip := u.rules.limitedBelow(u.path)
	seen := map[identity]bool{} // files with several links
	type folder struct {
		path  string
		depth int
	}
	for todo := []folder{{u.path, 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.depth > maxDepth {
			return 0, 0, errTooDeep
		}
		f, err := root.Open(at.path)
		if err != nil {
			if at.depth > 0 || errors.Is(err, os.ErrNotExist) {
				continue // removed meanwhile, or not created yet
			}
			return 0, 0, err
		}
		if own, err := f.Stat(); err == nil {
			bytes += own.Sys().(*syscall.Stat_t).Blocks * blockSize
		}
		err = eachEntry(f, func(name string, info *fileInfo) error {
			switch {
			case info.kind() == unix.S_IFDIR:
				p := path.Join(at.path, name)
				if skip[p] {
					return nil
				}
				todo = append(todo, folder{p, at.depth + 1})
			case info.Nlink > 1 && seen[info.identity()]:
				return nil
			default:
				if info.Nlink > 1 {
					seen[info.identity()] = true
				}
				bytes += info.bytes()
			}
			files++
			return nil
		})
		f.Close()
		if err != nil {
			return 0, 0, err
		}
		if u.rules.closed.Load() {
			return 0, 0, os.ErrClosed
		}
	}
	return bytes, files, nil
}

// eachEntry calls f for each entry of a folder that still exists.
func eachEntry(folder *os.File, f func(name string, info *fileInfo) error) error {
	dir := &descriptor{fd: int(folder.Fd())} // the caller closes it
	for {
		names, err := folder.Readdirnames(countBatch)
		if err == io.EOF || errors.Is(err, os.ErrNotExist) { // there are no more, or the folder was removed
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			var info fileInfo
			if statAt(dir, name, &info) != nil {
				continue // removed meanwhile
			}
			if err := f(name, &info); err != nil {
				return err
			}
		}
	}
}
