//go:build linux

// Package room creates a room for each agent: a user, a root file system, namespaces, limits and a seccomp filter for the agent's commands.
package room

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/seccomp"
)

// Room is a room that is running or has ended (see Dead). The garbage collector closes its
// descriptors, since commands may still use them.
type Room struct {
	spec        *guestpb.Room
	layer       string   // folder on the data disk
	upper       string   // folder of the layer that it writes to
	lower       []string // folders of its frozen layers, the top one first, and of the base
	files       string   // the guest's folder for the room, in memory
	bridgeFiles bridgeFiles
	disk        *os.File
	group       group
	filter      seccomp.Program
	lines       commandLines
	init        *process.Child
	pidfd       *os.File // of its first process
	ptmx        *os.File // O_PATH
	shellDir    *os.Root
	memory      *os.File // memory.events
	pids        *os.File // pids.events
	shell       string
	made        time.Time
	anew        bool // its layer was for another base and was discarded
	lacks       []string
	starts      chan struct{} // semaphore of maxStarts
	plugins     *pluginNetworks

	trusted   bool // the gateway's certificate is in the system's bundle
	unsettled bool // its network may differ from the spec
}

// maxStarts bounds the commands of one room that start at once. Others wait, so that PID 1 stays
// responsive.
const maxStarts = 4

// Admit waits until one more command of the room may start. The caller must call release once it
// has started.
func (r *Room) Admit(ctx context.Context) (release func(), err error) {
	select {
	case r.starts <- struct{}{}:
		return func() { <-r.starts }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// User is the Linux user of the room's agent.
func (r *Room) User() string { return r.spec.User }

// Dead returns a channel that is closed when the room's first process, and so every process in it,
// has ended.
func (r *Room) Dead() <-chan struct{} { return r.init.Done() }

func (r *Room) dead() bool { return notify.Closed(r.Dead()) }

// Ending reports whether the room's first process is exiting. The kernel kills all others before it has ended.
func (r *Room) Ending() bool {
	const flags, exiting = 6, 0x4 // the position after the name of field 9 of proc(5), and PF_EXITING
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.init.PID()))
	if err != nil {
		return true
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) <= flags {
		return false
	}
	n, _ := strconv.Atoi(f[flags])
	return n&exiting != 0
}

// Dial connects to a port on the room's loopback: see network.DialLoopback.
func (r *Room) Dial(ctx context.Context, port uint16) (*net.TCPConn, error) {
	return network.DialLoopback(ctx, port, func(f func() error) error {
		return process.InNamespaces(int(r.pidfd.Fd()), unix.CLONE_NEWNET, f)
	})
}

// Home returns the agent's home. The path is the same in the room and in the guest.
func (r *Room) Home() string { return r.spec.Home }

// Environment returns the login environment of the agent or of the room's root.
func (r *Room) Environment(root bool) []string {
	user, home, path := r.spec.User, r.spec.Home, r.spec.Home+"/.local/bin:"+protocol.SystemPath
	if root {
		user, home, path = "root", protocol.RootHome, protocol.SystemPath
	}
	list := []string{"HOME=" + home, "USER=" + user, "LOGNAME=" + user, "SHELL=" + r.shell, "PATH=" + path, "LANG=C.UTF-8"}
	if r.trusted {
		list = append(list, r.spec.Trust.GetEnvironment()...)
	}
	return list
}

// shellDir is the folder in the room, in memory, for the guest's files for shells.
const shellDir = "/run/osaurus-shells"

// makeShellDir creates shellDir. No program of the agent has run in the room yet, so the path can
// be trusted.
func (r *Room) makeShellDir() (*os.Root, error) {
	path := fmt.Sprintf("/proc/%d/root%s", r.init.PID(), shellDir)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// Spool opens the room's folder for shells, and returns it with its path in the room. The folder
// belongs to root, is in memory, and only this room sees it.
func (r *Room) Spool() (*os.Root, string, error) {
	dir, err := r.shellDir.OpenRoot(".")
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "open the room's folder for shells", r.spec.User, err)
	}
	return dir, shellDir, nil
}

// jobLogs is the folder of job logs in the room.
const jobLogs = "/run/osaurus-jobs"

// JobLogs returns the paths of the folder of job logs in the guest and in the room, where it is
// read-only.
func (r *Room) JobLogs() (path, inside string) { return filepath.Join(r.layer, "jobs"), jobLogs }

// network replaces the room's network by the one in the spec.
func (r *Room) network(spec *guestpb.Room, o Options) error {
	address, ok := netip.AddrFromSlice(spec.Address)
	cable := network.RoomCable(spec.Uid)
	if err := network.Disconnect(cable); err != nil || !ok {
		return err
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", r.init.PID()))
	if err != nil {
		return err
	}
	defer namespace.Close()
	<-o.ModulesLoaded
	if err := network.Connect(cable, address, namespace); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}
