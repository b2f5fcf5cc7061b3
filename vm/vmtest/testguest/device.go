//go:build linux

package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const askTimeout = 60 * time.Second

// readAt returns a part of a file or disk.
func readAt(path, offset, length string) (string, error) {
	off, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return string(b[:got]), err
}

// patch writes into a file or disk and syncs it.
func patch(path, offset, text string) error {
	off, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt([]byte(text), off); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ask sends a datagram to address:port until there is an answer, and returns it.
func ask(server, text string) (string, error) {
	c, err := net.Dial("udp4", server)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b := make([]byte, 64<<10)
	for began := time.Now(); ; {
		if _, err := io.WriteString(c, text); err != nil {
			return "", err
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return "", err
		}
		n, err := c.Read(b)
		if err == nil || time.Since(began) > askTimeout {
			return string(b[:n]), err
		}
	}
}

// send sends a frame count times, whatever addresses are in it.
func send(count, hexFrame string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	frame, err := hex.DecodeString(hexFrame)
	if err != nil {
		return err
	}
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range n {
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: eth0.Index}); err != nil {
			return err
		}
	}
	return nil
}

// printMany fills the console with copies of a line.
func printMany(kib, text string) error {
	n, err := strconv.Atoi(kib)
	if err != nil {
		return err
	}
	for left := n << 10; left > 0; left -= len(text) + 1 {
		if _, err := fmt.Println(text); err != nil {
			return err
		}
	}
	return nil
}

// obeyButton makes the guest power off when the power button is pressed. It fails if this kernel has
// no driver for it.
func obeyButton() error {
	names, err := filepath.Glob("/sys/class/input/event*/device/name")
	if err != nil {
		return err
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), "Power Button") {
			continue
		}
		f, err := os.Open("/dev/input/" + strings.Split(name, "/")[4])
		if err != nil {
			return err
		}
		go func() {
			defer f.Close()
			for {
				// struct input_event: a time of 16 bytes, type, code, value.
				var event [24]byte
				if _, err := io.ReadFull(f, event[:]); err != nil {
					return
				}
				const evKey, keyPower, pressed = 1, 116, 1
				if binary.LittleEndian.Uint16(event[16:]) == evKey && binary.LittleEndian.Uint16(event[18:]) == keyPower && event[20] == pressed {
					_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
				}
			}
		}()
		return nil
	}
	return errors.New("no power button")
}
