//go:build linux

package qemu

import (
	"encoding/json"
	"fmt"
	"strings"

	"osaurus-sandbox/vm"
)

// fileQueue is the size of a share's request queue. A guest sends at most so
// many pages in one request, less a few: this makes it nearly 4 MiB.
const fileQueue = 1024

// fixedMAC is a locally administered address. Each machine is alone on its
// network, so that all may have the same.
const fixedMAC = "52:54:00:6f:73:61"

// wiring is what the command line says of descriptors that QEMU inherits: for
// each device served here, and for the console and the control connection, the
// number that the connected socket has in QEMU.
type wiring struct {
	console, control int
	backends         []wire
}

// wire is a device served by this process: QEMU's name and properties for it.
type wire struct {
	device string
	fd     int
}

// arguments is QEMU's command line for a machine.
func arguments(cfg *vm.Config, accel Accelerator, w wiring) []string {
	var args []string
	add := func(option, format string, values ...any) {
		args = append(args, option, fmt.Sprintf(format, values...))
	}

	add("-name", "%s", cfg.Name)
	args = append(args, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none")
	// QEMU needs none of these once it runs, and a guest that broke out of it
	// would.
	add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	add("-machine", "%s", machineType(cfg.Arch))
	add("-accel", "%s", accelerators[accel])
	add("-cpu", "%s", processor(cfg.Arch, accel))
	add("-smp", "%d", cfg.CPUs)
	// Sealed and shared: the devices in this process map it too.
	add("-object", "memory-backend-memfd,id=ram,size=%d,share=on", cfg.Memory)
	add("-m", "%dM", cfg.Memory>>20)

	add("-kernel", "%s", cfg.Kernel)
	if cfg.Initrd != "" {
		add("-initrd", "%s", cfg.Initrd)
	}
	add("-append", "%s", strings.Join(append(kernelArgs(cfg.Arch, accel), cfg.KernelArgs...), " "))

	add("-chardev", "socket,id=control,fd=%d", w.control)
	add("-mon", "chardev=control,mode=control")

	// One log for both consoles: the serial port says what goes wrong before
	// the kernel has a driver for the other.
	add("-chardev", "socket,id=console,fd=%d,mux=on", w.console)
	add("-serial", "chardev:console")
	// The default of 31 ports would cost each boot 62 queues.
	add("-device", "virtio-serial-pci,max_ports=1,disable-legacy=on")
	add("-device", "virtconsole,chardev=console")

	add("-object", "rng-builtin,id=entropy")
	add("-device", "virtio-rng-pci,rng=entropy,disable-legacy=on")

	for i, d := range cfg.Disks {
		add("-blockdev", "%s", blockdev(i, d))
		// An error of the host's disk is one for the guest to see. But one that has no room left is
		// not broken, and a file system that is told so breaks: the machine stands still until it
		// has room again, and writes then.
		add("-device", "virtio-blk-pci,drive=disk%d,werror=enospc,rerror=report,disable-legacy=on", i)
	}
	if cfg.Network == vm.NetworkNAT {
		// Without IPv6: a host often has none, and programs would wait for it.
		add("-netdev", "user,id=net,ipv6=off")
		add("-device", "virtio-net-pci,netdev=net,mac=%s,romfile=,disable-legacy=on", fixedMAC)
	}
	for i, b := range w.backends {
		add("-chardev", "socket,id=backend%d,fd=%d", i, b.fd)
		add("-device", "%s,chardev=backend%d", b.device, i)
	}
	return args
}

// machineType leaves out all that a machine of virtio devices never uses; each
// part costs the guest's kernel time to find.
func machineType(arch vm.Arch) string {
	const common = "memory-backend=ram,dump-guest-core=off"
	if arch == vm.ARM64 {
		return "virt,gic-version=max," + common // more than eight processors
	}
	return "q35,usb=off,sata=off,smbus=off,vmport=off,smm=off,i8042=off," + common
}

var accelerators = map[Accelerator]string{KVM: "kvm", TCG: "tcg,thread=multi"}

// processor chooses what programs in the guest can count on. Translated, amd64
// has everything up to AVX2, which some prebuilt programs demand, but not the
// five-level page tables, which only cost, nor the fast copying of strings, which
// has kernel and programs copy byte by byte what they else copy by the word: that
// doubles what a byte through vsock costs; arm64 is the plainest 64-bit core,
// which all distributions are built for: "max" boots slower by its pointer
// authentication alone.
func processor(arch vm.Arch, accel Accelerator) string {
	switch {
	case accel == KVM:
		return "host"
	case arch == vm.ARM64:
		return "cortex-a57"
	}
	return "max,la57=off,erms=off,fsrm=off"
}

// kernelArgs are the driver's own. The guest's console is hvc0, as it is under
// Virtualization.framework; until the kernel has its driver, errors come out of
// the serial port. A kernel that panics resets, which ends the machine. The
// kernel's tests of its own ciphers would take a tenth of an emulated boot.
func kernelArgs(arch vm.Arch, accel Accelerator) []string {
	early := "earlycon=uart8250,io,0x3f8"
	if arch == vm.ARM64 {
		early = "earlycon=pl011,0x9000000"
	}
	// Quiet comes first, since it counts from where it is read.
	args := []string{"quiet", early, "console=hvc0", "panic=-1", "net.ifnames=0", "cryptomgr.notests"}
	if arch == vm.AMD64 && accel == TCG {
		// Translated processors all read one counter, but do not say so, and the
		// kernel would ask a device for each time of day. Their timer ticks too, but not
		// always within the moment in which the kernel would try it, and panic.
		args = append(args, "tsc=reliable", "no_timer_check")
		// A kernel patches itself most while it boots, in steps that other processors may see. Translated
		// by QEMU 7.2, one may go on with what was there before, and all hang: the guest starts the others
		// after that. A kernel that took itself for one with a single processor would patch itself then.
		args = append(args, "maxcpus=1", "noreplace-smp")
		// Where it measures that counter itself, and this computer is busy, its clock may be five times
		// too fast for good.
		if rate := tickRate(); rate > 0 {
			args = append(args, fmt.Sprintf("tsc_early_khz=%d", rate))
		}
	}
	return args
}

// blockdev describes a disk. In JSON no character of a path means anything.
// Flushes of the guest reach the host's disk; what the guest discards or zeroes
// becomes a hole in the file.
func blockdev(i int, d vm.Disk) string {
	type file struct {
		Driver   string `json:"driver"`
		Filename string `json:"filename"`
		ReadOnly bool   `json:"read-only"`
		Discard  string `json:"discard"`
	}
	b, err := json.Marshal(struct {
		Driver       string `json:"driver"`
		NodeName     string `json:"node-name"`
		ReadOnly     bool   `json:"read-only"`
		Discard      string `json:"discard"`
		DetectZeroes string `json:"detect-zeroes,omitempty"`
		File         file   `json:"file"`
	}{
		Driver: "raw", NodeName: fmt.Sprintf("disk%d", i), ReadOnly: d.ReadOnly, Discard: "unmap", DetectZeroes: detectZeroes(d),
		File: file{"file", d.Path, d.ReadOnly, "unmap"},
	})
	if err != nil {
		panic(err) // strings and booleans always encode
	}
	return string(b)
}

func detectZeroes(d vm.Disk) string {
	if d.ReadOnly {
		return "" // nothing is written
	}
	return "unmap"
}
