//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control runs commands. A command is a line of words, its answer a line of JSON.
func control(c stream) {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		v, err := command(strings.Fields(line))
		reply := map[string]string{"v": v}
		if err != nil {
			reply["err"] = err.Error()
		}
		b, _ := json.Marshal(reply)
		if _, err := c.Write(append(b, '\n')); err != nil {
			return
		}
	}
}

func command(w []string) (string, error) {
	switch w[0] {
	case "mount": // tag dir
		if err := os.MkdirAll(w[2], 0o755); err != nil {
			return "", err
		}
		return "", syscall.Mount(w[1], w[2], "virtiofs", 0, "")
	case "umount":
		return "", syscall.Unmount(w[1], 0)
	case "as": // uid command...
		uid, err := strconv.Atoi(w[1])
		if err != nil {
			return "", err
		}
		cmd := exec.Command("/proc/self/exe", w[2:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	case "exec": // program arguments...: returns its output
		out, err := exec.Command(w[1], w[2:]...).CombinedOutput()
		return string(out), err
	case "fsbench": // dir MiB files
		return fsbench(w[1], w[2], w[3])
	case "dial": // count: concurrent connections to the host
		return dialMany(w[1])
	case "readat": // file offset length
		return readAt(w[1], w[2], w[3])
	case "patch": // file offset text
		return "", patch(w[1], w[2], w[3])
	case "ask": // address:port text: sends a datagram until there is an answer
		return ask(w[1], w[2])
	case "send": // count frame, in hexadecimal
		return "", send(w[1], w[2])
	case "print": // KiB text...: fill the console with copies of a line
		return "", printMany(w[1], strings.Join(w[2:], " "))
	case "button": // power off when the power button is pressed
		return "", obeyButton()
	case "panic":
		return "", os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	case "reboot":
		return "", syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	case "poweroff":
		unix.Sync()
		return "", syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	case "cmdline":
		b, err := os.ReadFile("/proc/cmdline")
		return string(b), err
	}
	var sb strings.Builder
	if code := childOut(w[0], w[1:], &sb); code != 0 {
		return "", errors.New(sb.String())
	}
	return sb.String(), nil
}
