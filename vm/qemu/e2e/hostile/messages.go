//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

var le = binary.LittleEndian

// netprobe is the size of the last frame.
const netprobe = 99

const (
	guestCID = 3
	hostCID  = 2
	hostPort = 5000

	vsockHeader = 44
	opRequest   = 1
	opResponse  = 2
	opRW        = 5
)

func vsockPacket(src, dst uint32, op uint16, flags, credit uint32, data string) []byte {
	b := le.AppendUint64(nil, guestCID)
	b = le.AppendUint64(b, hostCID)
	b = le.AppendUint32(b, src)
	b = le.AppendUint32(b, dst)
	b = le.AppendUint32(b, uint32(len(data)))
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, op)
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, credit)
	b = le.AppendUint32(b, 0)
	return append(b, data...)
}

// vsock returns a nearly valid packet. It uses few ports, so that packets reach connections.
func (a *attacker) vsock() []byte {
	data := make([]byte, a.IntN(2)*a.IntN(2000))
	return vsockPacket(uint32(a.IntN(4)), hostPort+uint32(a.IntN(2)), uint16(a.IntN(9)), uint32(a.IntN(4)), a.Uint32()>>a.IntN(32), string(data))
}

const (
	fuseHeader  = 40
	fuseOpInit  = 26
	fuseOpcodes = 55
)

func fuseRequest(op uint32, node uint64, body []byte) []byte {
	b := le.AppendUint32(nil, uint32(fuseHeader+len(body)))
	b = le.AppendUint32(b, op)
	b = le.AppendUint64(b, 1)
	b = le.AppendUint64(b, node)
	b = append(b, make([]byte, fuseHeader-24)...) // root's
	return append(b, body...)
}

func fuseInit() []byte {
	body := make([]byte, 64)
	le.PutUint32(body, 7)
	le.PutUint32(body[4:], 38)
	le.PutUint32(body[8:], 1<<20)
	return fuseRequest(fuseOpInit, 0, body)
}

// fuse returns a request that may lead out of the share.
func (a *attacker) fuse() []byte {
	names := []string{"a", "b", ".", "..", "../outside", "../outside/secret", "escape", "escape/secret", "/etc/passwd", "", "a/b", "../../../../tmp"}
	var body []byte
	// Arguments before the names: up to 48 bytes.
	for range a.IntN(7) {
		body = le.AppendUint64(body, a.Uint64()>>a.IntN(64))
	}
	for range a.IntN(3) {
		body = append(append(body, names[a.IntN(len(names))]...), 0)
	}
	return fuseRequest(uint32(a.IntN(fuseOpcodes)), uint64(a.IntN(6)), body)
}

// sendOdd sends an empty frame, runts and a frame that is too large, each after a reset.
func sendOdd(d *device) {
	const header = 12
	p := dmaPages(1)[0]
	for _, size := range []int{0, 1, 13, 4000, 0, netprobe} {
		d.start(featVersion1)
		tx := d.queues[1]
		tx.describe(0, p.addr, uint32(header+size), 0, 0)
		tx.publish(0)
		tx.kick()
		patience := patience
		if size == 0 { // QEMU does not answer it
			patience = 100 * pause
		}
		for end := time.Now().Add(patience); tx.usedIndex() != 1 && time.Now().Before(end); {
			time.Sleep(pause)
		}
	}
	d.reset()
}

// behave connects to the host over a device and sends "alive".
func behave(d *device) error {
	if d == nil {
		return errors.New("no vsock device to use well")
	}
	d.start(featVersion1)
	data := dmaPages(3)
	rx, tx := d.queues[0], d.queues[1]
	for i := range 2 {
		rx.describe(i, data[i].addr, uint32(len(data[i].mem)), descWrite, 0)
		rx.publish(uint16(i))
	}
	rx.kick()
	send := func(op uint16, text string) {
		n := copy(data[2].mem, vsockPacket(9, hostPort, op, 0, 1<<16, text))
		tx.describe(0, data[2].addr, uint32(n), 0, 0)
		tx.publish(0)
		tx.kick()
	}
	await := func(q *queue, used uint16) bool {
		for end := time.Now().Add(patience); q.usedIndex() != used && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return q.usedIndex() == used
	}
	send(opRequest, "")
	if !await(tx, 1) || !await(rx, 1) {
		return errors.New("no answer to a connection request")
	}
	if op := le.Uint16(data[0].mem[30:]); op != opResponse {
		return fmt.Errorf("answer to a connection request: operation %d", op)
	}
	if send(opRW, "alive"); !await(tx, 2) {
		return errors.New("the last message was not taken")
	}
	return nil
}
