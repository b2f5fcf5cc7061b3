//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// fsbench measures file operations in a directory. It returns seconds by step, in JSON.
func fsbench(dir, mib, files string) (string, error) {
	size, err := strconv.Atoi(mib)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(files)
	if err != nil {
		return "", err
	}
	res := map[string]float64{}
	timed := func(name string, f func() error) {
		if err != nil {
			return
		}
		t := time.Now()
		if err = f(); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		res[name] = time.Since(t).Seconds()
	}
	dropCaches := func() { _ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) }
	buf := make([]byte, 1<<20)
	big := filepath.Join(dir, "big")
	timed("write", func() error {
		f, err := os.Create(big)
		if err != nil {
			return err
		}
		defer f.Close()
		for range size {
			if _, err := f.Write(buf); err != nil {
				return err
			}
		}
		return nil
	})
	dropCaches()
	timed("read", func() error {
		f, err := os.Open(big)
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
		if err == nil && got != int64(size)<<20 {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	dropCaches()
	timed("randread4k", func() error {
		f, err := os.OpenFile(big, os.O_RDONLY|unix.O_DIRECT, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := range 2000 {
			if _, err := f.ReadAt(b, int64(i*7919%(size*256))*4096); err != nil {
				return err
			}
		}
		return nil
	})
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("d%d", i%10), fmt.Sprintf("f%d", i)) }
	for i := range 10 {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name(i)), 0o755)
		}
	}
	each := func(f func(string) error) func() error {
		return func() error {
			for i := range n {
				if err := f(name(i)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	timed("create", each(func(p string) error {
		fd, err := unix.Open(p, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}))
	timed("stat", each(func(p string) error { var st unix.Stat_t; return unix.Stat(p, &st) }))
	dropCaches()
	timed("coldstat", each(func(p string) error { var st unix.Stat_t; return unix.Stat(p, &st) }))
	timed("readdir", func() error {
		for i := range 10 {
			if _, err := os.ReadDir(filepath.Dir(name(i))); err != nil {
				return err
			}
		}
		return nil
	})
	timed("unlink", each(unix.Unlink))
	if err == nil {
		err = os.Remove(big)
	}
	for i := range 10 {
		_ = os.Remove(filepath.Dir(name(i)))
	}
	b, _ := json.Marshal(res) // cannot fail
	return string(b), err
}
