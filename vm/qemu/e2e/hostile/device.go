//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of PCI and virtio-pci.
const (
	vendorVirtio = "0x1af4"
	firstDevice  = 0x1040 // PCI device id of virtio type 0
	kindNet      = 1
	kindVsock    = 19
	kindFS       = 26

	capCommon, capNotify = 1, 2

	featIndirect = 1 << 28
	featEventIdx = 1 << 29
	featVersion1 = 1 << 32

	statusReady = 1 | 2 | 8 // acknowledged, driver, features fine
	statusGo    = statusReady | 4

	descNext, descWrite, descIndirect = 1, 2, 4

	maxQueues = 2 // of a device
	ringSize  = 64
)

// device is a virtio device.
type device struct {
	kind          int
	common        []byte // its common configuration
	notify        []byte
	notifyFactor  int
	queues        []*queue
	ringsAnywhere uint64 // added to the addresses of rings
}

func findDevices() ([]*device, error) {
	dirs, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return nil, err
	}
	var all []*device
	for _, dir := range dirs { // in the order of their slots
		vendor, _ := os.ReadFile(dir + "/vendor")
		if string(bytes.TrimSpace(vendor)) != vendorVirtio {
			continue
		}
		d, err := openDevice(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func openDevice(dir string) (*device, error) {
	if err := os.WriteFile(dir+"/enable", []byte("1"), 0); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir+"/config", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cfg := make([]byte, 256)
	if _, err := f.ReadAt(cfg, 0); err != nil {
		return nil, err
	}
	const command, memory, master, noInterrupts = 4, 1 << 1, 1 << 2, 1 << 10
	if _, err := f.WriteAt(le.AppendUint16(nil, le.Uint16(cfg[command:])|memory|master|noInterrupts), command); err != nil {
		return nil, err
	}
	d := &device{kind: int(le.Uint16(cfg[2:])) - firstDevice}
	for at := cfg[0x34]; at != 0; at = cfg[at+1] {
		if cfg[at] != 9 { // vendor specific
			continue
		}
		kind, bar, offset, length := cfg[at+3], cfg[at+4], le.Uint32(cfg[at+8:]), le.Uint32(cfg[at+12:])
		if kind != capCommon && kind != capNotify {
			continue
		}
		mem, err := mapBar(fmt.Sprintf("%s/resource%d", dir, bar), offset, length)
		if err != nil {
			return nil, err
		}
		if kind == capCommon {
			d.common = mem
		} else {
			d.notify, d.notifyFactor = mem, int(le.Uint32(cfg[at+16:]))
		}
	}
	for i := range maxQueues {
		pages := dmaPages(3)
		d.queues = append(d.queues, &queue{d: d, index: i, num: ringSize, desc: pages[0], avail: pages[1], used: pages[2]})
	}
	return d, nil
}

func mapBar(path string, offset, length uint32) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return unix.Mmap(int(f.Fd()), int64(offset), int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Registers must be accessed by their own size.

func (d *device) set8(off int, v uint8) { *(*uint8)(unsafe.Pointer(&d.common[off])) = v }
func (d *device) set16(off int, v int)  { *(*uint16)(unsafe.Pointer(&d.common[off])) = uint16(v) }
func (d *device) set32(off int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&d.common[off])), v)
}
func (d *device) get8(off int) uint8 { return *(*uint8)(unsafe.Pointer(&d.common[off])) }
func (d *device) get16(off int) int  { return int(*(*uint16)(unsafe.Pointer(&d.common[off]))) }

func (d *device) set64(off int, v uint64) {
	d.set32(off, uint32(v))
	d.set32(off+4, uint32(v>>32))
}

// Offsets in the common configuration.
const (
	regDriverFeatureSelect = 8
	regDriverFeature       = 12
	regStatus              = 20
	regQueueSelect         = 22
	regQueueSize           = 24
	regQueueEnable         = 28
	regQueueNotify         = 30
	regQueueDesc           = 32
	regQueueDriver         = 40
	regQueueDevice         = 48
)

func (d *device) reset() {
	d.set8(regStatus, 0)
	for d.get8(regStatus) != 0 {
		time.Sleep(time.Millisecond)
	}
}

// start starts the device like a driver.
func (d *device) start(features uint64) {
	d.reset()
	d.set8(regStatus, 1|2)
	for half := range uint32(2) {
		d.set32(regDriverFeatureSelect, half)
		d.set32(regDriverFeature, uint32(features>>(32*half)))
	}
	d.set8(regStatus, statusReady)
	for _, q := range d.queues {
		q.clear()
		d.set16(regQueueSelect, q.index)
		d.set16(regQueueSize, q.num)
		q.notifyAt = d.get16(regQueueNotify) * d.notifyFactor
		for reg, p := range map[int]page{regQueueDesc: q.desc, regQueueDriver: q.avail, regQueueDevice: q.used} {
			d.set64(reg, p.addr+d.ringsAnywhere)
		}
		d.set16(regQueueEnable, 1)
	}
	d.set8(regStatus, statusGo)
}

// page is a page of memory that devices can reach.
type page struct {
	mem  []byte
	addr uint64 // guest-physical
}

// dmaPages returns n pages with their addresses.
func dmaPages(n int) []page {
	const size = 4096
	b, err := unix.Mmap(-1, 0, n*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_LOCKED|unix.MAP_POPULATE)
	if err != nil {
		panic(err)
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	var pages []page
	for i := range n {
		mem := b[i*size:][:size:size]
		mem[0] = 0
		var entry [8]byte
		if _, err := f.ReadAt(entry[:], int64(uintptr(unsafe.Pointer(&mem[0]))/size)*8); err != nil {
			panic(err)
		}
		const frame = 1<<55 - 1
		pages = append(pages, page{mem, le.Uint64(entry[:]) & frame * size})
	}
	return pages
}

// queue is a virtqueue.
type queue struct {
	d                 *device
	index, num        int
	notifyAt          int
	desc, avail, used page
	added             uint16
	requests          int
}

func (q *queue) clear() {
	for _, p := range []page{q.desc, q.avail, q.used} {
		clear(p.mem)
	}
	q.added, q.requests = 0, 0
}

// next returns the next slot for a request of two descriptors.
func (q *queue) next() int {
	q.requests++
	return q.requests % (q.num / 2)
}

func (q *queue) describe(i int, addr uint64, n uint32, flags, next uint16) {
	putDesc(q.desc.mem[16*i:], addr, n, flags, next)
}

func putDesc(b []byte, addr uint64, n uint32, flags, next uint16) {
	le.PutUint64(b, addr)
	le.PutUint32(b[8:], n)
	le.PutUint16(b[12:], flags)
	le.PutUint16(b[14:], next)
}

func (q *queue) publish(head uint16) {
	le.PutUint16(q.avail.mem[4+2*(int(q.added)%q.num):], head)
	q.setAvail(q.added + 1)
}

func (q *queue) setAvail(index uint16) {
	q.added = index
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&q.avail.mem[0])), uint32(index)<<16)
}

func (q *queue) usedIndex() uint16 {
	return uint16(atomic.LoadUint32((*uint32)(unsafe.Pointer(&q.used.mem[0]))) >> 16)
}

// answered returns the number of answered requests, or 0 if noise has made it invalid.
func (q *queue) answered() int {
	if n := int(q.usedIndex()); n <= q.requests {
		return n
	}
	return 0
}

func (q *queue) kick() {
	*(*uint16)(unsafe.Pointer(&q.d.notify[q.notifyAt])) = uint16(q.index)
}
