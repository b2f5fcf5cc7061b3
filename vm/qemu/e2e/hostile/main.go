//go:build linux

// Command hostile is PID 1 of a hostile guest. Without drivers, it writes garbage into the queues of shares and of the vsock device, which it resets and uses properly in the end. It also sends frames that a network driver would not.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

const (
	// rounds is how many times a device is reset and attacked again, with requests
	// requests each.
	rounds   = 120
	requests = 40
	// pause is the time for a device to answer a batch.
	pause = 2 * time.Millisecond
	// patience is how long a device may take to answer a request that must be answered.
	patience = time.Minute
)

func main() {
	if err := run(); err != nil {
		fmt.Println("hostile: failed:", err)
	}
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := syscall.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[0], err)
		}
	}
	devices, err := findDevices()
	if err != nil {
		return err
	}
	var socket *device
	r := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	for _, d := range devices {
		switch d.kind {
		case kindVsock:
			socket = d
		case kindFS:
		case kindNet:
			sendOdd(d)
			continue
		default:
			continue
		}
		a := attacker{d, r, dmaPages(dataPages), 0}
		for i := range rounds {
			a.round(i)
		}
		d.reset()
		fmt.Printf("hostile: device of type %d answered %d requests\n", d.kind, a.answered)
	}
	return behave(socket)
}

// attacker sends garbage to a device.
type attacker struct {
	*device
	*rand.Rand
	data     []page
	answered int
}

const dataPages = 16

// round starts the device, roughly like a driver, and misuses it.
func (a *attacker) round(i int) {
	features := uint64(featVersion1)
	if i%2 == 0 {
		features |= featIndirect
	}
	if i%3 == 0 {
		features |= featEventIdx
	}
	if i%16 == 15 {
		a.ringsAnywhere = a.Uint64() >> a.IntN(64)
	}
	a.start(features)
	a.ringsAnywhere = 0
	if a.kind == kindFS {
		a.request(a.queues[1], fuseInit())
		time.Sleep(pause)
	}
	for range requests {
		q := a.queues[a.IntN(len(a.queues))]
		switch a.IntN(40) {
		case 0: // overwrite rings with noise
			for _, p := range []page{q.desc, q.avail, q.used}[:1+a.IntN(3)] {
				a.noise(p.mem[:64+a.IntN(len(p.mem)-64)])
			}
		case 1: // invalid descriptors
			for n := range 8 {
				q.describe(n, a.address(), a.length(), uint16(a.IntN(8)), uint16(a.IntN(q.num+2)))
			}
			q.publish(uint16(a.IntN(q.num + 1)))
		case 2:
			q.setAvail(uint16(a.Uint32()))
		default:
			a.request(q, a.message())
		}
		q.kick()
		if a.IntN(4) == 0 {
			time.Sleep(pause)
		}
	}
	time.Sleep(pause)
	for _, q := range a.queues {
		a.answered += q.answered()
	}
}

// request sends a message in a valid chain of one buffer to read and one to write, sometimes through
// an indirect table.
func (a *attacker) request(q *queue, message []byte) {
	out, in, table := a.data[a.IntN(4)], a.data[4+a.IntN(4)], a.data[8+a.IntN(4)]
	n := copy(out.mem, message)
	slot := q.next()
	head := 2 * slot
	if a.IntN(4) == 0 {
		putDesc(table.mem, out.addr, uint32(n), descNext, 1)
		putDesc(table.mem[16:], in.addr, uint32(len(in.mem)), descWrite, 0)
		q.describe(head, table.addr, 32, descIndirect, 0)
	} else if a.kind == kindVsock && q.index == 0 {
		q.describe(head, in.addr, uint32(a.IntN(len(in.mem))), descWrite, 0)
	} else {
		q.describe(head, out.addr, uint32(n), descNext, uint16(head+1))
		q.describe(head+1, in.addr, uint32(len(in.mem)), descWrite, 0)
	}
	q.publish(uint16(head))
	q.kick()
}

func (a *attacker) message() []byte {
	var b []byte
	if a.kind == kindFS {
		b = a.fuse()
	} else {
		b = a.vsock()
	}
	if a.IntN(8) == 0 { // a bit of noise
		b[a.IntN(len(b))] = byte(a.Uint32())
	}
	return b
}

func (a *attacker) noise(b []byte) {
	for i := range b {
		b[i] = byte(a.Uint32())
	}
}

func (a *attacker) address() uint64 {
	switch a.IntN(4) {
	case 0:
		return a.Uint64() >> a.IntN(64)
	case 1:
		return -uint64(a.IntN(64))
	}
	return a.data[a.IntN(len(a.data))].addr + uint64(a.IntN(4096))
}

func (a *attacker) length() uint32 {
	if a.IntN(2) == 0 {
		return a.Uint32() >> a.IntN(32)
	}
	return uint32(a.IntN(256))
}
