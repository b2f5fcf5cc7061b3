//go:build linux

package qemu

import (
	"encoding/json"
	"fmt"
	"strings"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/vm"
)

// fileQueue is the size of a share's request queue. It bounds the pages of one request, here to
// nearly 4 MiB.
const fileQueue = 1024

// arguments returns QEMU's command line for a machine. QEMU inherits the sockets of the control
// connection, the console, each device in backends and the NIC, in this order, from descriptor
// firstInherited on.
func arguments(cfg *vm.Config, accel string, backends []backend) []string {
	var args []string
	add := func(option, format string, values ...any) {
		args = append(args, option, fmt.Sprintf(format, values...))
	}

	add("-name", "%s", cfg.Name)
	args = append(args, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none")
	// QEMU does not need these system calls once it runs, but a guest that escaped into it might.
	add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	add("-machine", "%s", machineType(cfg.Arch))
	add("-accel", "%s", accelerators[accel])
	add("-cpu", "%s", processor(cfg.Arch, accel))
	add("-smp", "%d", cfg.CPUs)
	// Sealed and shared, because devices in this process map it too.
	add("-object", "memory-backend-memfd,id=ram,size=%d,share=on", cfg.Memory)
	add("-m", "%dM", cfg.Memory>>20)

	add("-kernel", "%s", cfg.Kernel)
	if cfg.Initrd != "" {
		add("-initrd", "%s", cfg.Initrd)
	}
	add("-append", "%s", strings.Join(append(kernelArgs(cfg.Arch, accel), cfg.KernelArgs...), " "))

	add("-chardev", "socket,id=control,fd=%d", firstInherited)
	add("-mon", "chardev=control,mode=control")

	// One log for both consoles: the serial port shows errors until the kernel has a driver for the
	// virtio console.
	add("-chardev", "socket,id=console,fd=%d,mux=on", firstInherited+1)
	add("-serial", "chardev:console")
	// The default of 31 ports would cost each boot 62 queues.
	add("-device", "virtio-serial-pci,max_ports=1,disable-legacy=on")
	add("-device", "virtconsole,chardev=console")

	add("-object", "rng-builtin,id=entropy")
	add("-device", "virtio-rng-pci,rng=entropy,disable-legacy=on")

	for i, d := range cfg.Disks {
		add("-blockdev", "%s", blockdev(i, d))
		// Report I/O errors of the host's disk to the guest, except a full disk, which would break
		// the guest's file system. QEMU then pauses the machine until there is space, and retries.
		add("-device", "virtio-blk-pci,drive=disk%d,werror=enospc,rerror=report,disable-legacy=on", i)
	}
	if cfg.NIC != nil {
		add("-netdev", "dgram,id=net,local.type=fd,local.str=%d", firstInherited+2+len(backends))
		add("-device", "virtio-net-pci,netdev=net,mac=%s,host_mtu=%d,romfile=,disable-legacy=on", subnet.GuestMAC, subnet.MTU)
	}
	for i, b := range backends {
		add("-chardev", "socket,id=backend%d,fd=%d", i, firstInherited+2+i)
		add("-device", "%s,chardev=backend%d", b.argument, i)
	}
	return args
}

// machineType returns the machine without legacy devices, which would slow down the guest's boot.
func machineType(arch vm.Arch) string {
	const common = "memory-backend=ram,dump-guest-core=off"
	if arch == vm.ARM64 {
		return "virt,gic-version=max," + common // more than eight processors
	}
	return "q35,usb=off,sata=off,smbus=off,vmport=off,smm=off,i8042=off," + common
}

var accelerators = map[string]string{KVM: "kvm", TCG: "tcg,thread=multi"}

// processor returns QEMU's CPU model. Emulated amd64 has features up to AVX2, which some prebuilt
// programs need. It lacks five-level page tables, which are slow, and fast string operations, which
// make kernel and programs copy byte by byte and double the cost of vsock. Emulated arm64 is the
// base model that all distributions support: "max" boots slower because of pointer authentication.
func processor(arch vm.Arch, accel string) string {
	switch {
	case accel == KVM:
		return "host"
	case arch == vm.ARM64:
		return "cortex-a57"
	}
	return "max,la57=off,erms=off,fsrm=off"
}

// kernelArgs returns the kernel arguments that this driver adds. The console is hvc0, as under
// Virtualization.framework; until its driver is loaded, errors go to the serial port. A panic
// resets and so ends the machine. The self-tests of ciphers would take a tenth of an emulated boot.
func kernelArgs(arch vm.Arch, accel string) []string {
	early := "earlycon=uart8250,io,0x3f8"
	if arch == vm.ARM64 {
		early = "earlycon=pl011,0x9000000"
	}
	// "quiet" comes first because it takes effect where it is parsed.
	args := []string{"quiet", early, "console=hvc0", "panic=-1", "net.ifnames=0", "cryptomgr.notests"}
	if arch == vm.AMD64 && accel == TCG {
		// Emulated processors share one time stamp counter, but the kernel does not know that and
		// would use a slow clock device. Their timer may also be too late for the kernel's timer
		// check, which would panic.
		args = append(args, "tsc=reliable", "no_timer_check")
		// The kernel patches its code while it boots. Under QEMU 7.2's emulation, another processor
		// may keep running the old code, and all hang. So the guest starts the others after boot,
		// and noreplace-smp keeps the kernel from patching itself again when it does.
		args = append(args, "maxcpus=1", "noreplace-smp")
		// On a busy host the kernel can measure the counter's rate wrongly and run its clock up to
		// five times too fast.
		if rate := tickRate(); rate > 0 {
			args = append(args, fmt.Sprintf("tsc_early_khz=%d", rate))
		}
	}
	return args
}

// blockdev describes a disk, in JSON so that a path needs no escaping for QEMU. Guest flushes reach
// the host's disk; blocks that the guest discards or zeroes become holes in the file.
func blockdev(i int, d vm.Disk) string {
	type object map[string]any
	disk := object{
		"driver": "raw", "node-name": fmt.Sprintf("disk%d", i), "read-only": d.ReadOnly, "discard": "unmap",
		"file": object{"driver": "file", "filename": d.Path, "read-only": d.ReadOnly, "discard": "unmap"},
	}
	if !d.ReadOnly {
		disk["detect-zeroes"] = "unmap"
	}
	b, err := json.Marshal(disk)
	if err != nil {
		panic(err) // cannot fail for strings and booleans
	}
	return string(b)
}
