//go:build darwin || vzstandin

package vz

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/vm"
)

// kernelArgs are the driver's kernel arguments. The only console is hvc0. After a panic
// the kernel waits, so that the machine can be ended (see panicGrace): a reset may not
// end a machine of the framework.
// On an M4, guests see SVE and SME, which the framework does not carry through: programs that
// use them end with SIGILL.
func kernelArgs(arch vm.Arch) []string {
	args := []string{"console=hvc0", "loglevel=6", "panic=10", "net.ifnames=0"}
	if arch == vm.ARM64 {
		args = append(args, "arm64.nosve", "arm64.nosme")
	}
	return args
}

// assemble puts a machine's hardware together.
func assemble(cfg *vm.Config, line *serial) (*vz.VirtualMachineConfiguration, error) {
	const op = "assemble machine"
	options := []vz.LinuxBootLoaderOption{vz.WithCommandLine(strings.Join(slices.Concat(kernelArgs(cfg.Arch), cfg.KernelArgs), " "))}
	if cfg.Initrd != "" {
		options = append(options, vz.WithInitrd(cfg.Initrd))
	}
	loader, err := vz.NewLinuxBootLoader(cfg.Kernel, options...)
	if err != nil {
		return nil, explain(op, "kernel", err)
	}
	hardware, err := vz.NewVirtualMachineConfiguration(loader, uint(cfg.CPUs), uint64(cfg.Memory))
	if err != nil {
		return nil, explain(op, cfg.Name, err)
	}
	if err := cmp.Or(addDisks(hardware, cfg.Disks), addShares(hardware, cfg.Shares), addNetwork(hardware, cfg), addConsole(hardware, line), addRest(hardware)); err != nil {
		return nil, explain(op, cfg.Name, err)
	}
	return hardware, nil
}

// addDisks adds raw disks, cached and with fsync: ext4 was seen to break with automatic
// caching.
func addDisks(h *vz.VirtualMachineConfiguration, disks []vm.Disk) error {
	var all []vz.StorageDeviceConfiguration
	for i, d := range disks {
		image, err := vz.NewDiskImageStorageDeviceAttachmentWithCacheAndSync(d.Path, d.ReadOnly,
			vz.DiskImageCachingModeCached, vz.DiskImageSynchronizationModeFsync)
		if err == nil {
			var disk *vz.VirtioBlockDeviceConfiguration
			disk, err = vz.NewVirtioBlockDeviceConfiguration(image)
			all = append(all, disk)
		}
		if err != nil {
			return fmt.Errorf("disk %d: %w", i, err)
		}
	}
	h.SetStorageDevicesVirtualMachineConfiguration(all)
	return nil
}

func addShares(h *vz.VirtualMachineConfiguration, shares []vm.Share) error {
	var all []vz.DirectorySharingDeviceConfiguration
	for _, s := range shares {
		device, err := newShare(s)
		if err != nil {
			return fmt.Errorf("share %s: %w", s.Tag, err)
		}
		all = append(all, device)
	}
	h.SetDirectorySharingDevicesVirtualMachineConfiguration(all)
	return nil
}

func newShare(s vm.Share) (*vz.VirtioFileSystemDeviceConfiguration, error) {
	folder, err := vz.NewSharedDirectory(s.Path, s.ReadOnly)
	if err != nil {
		return nil, err
	}
	share, err := vz.NewSingleDirectoryShare(folder)
	if err != nil {
		return nil, err
	}
	device, err := vz.NewVirtioFileSystemDeviceConfiguration(s.Tag)
	if err == nil {
		device.SetDirectoryShare(share)
	}
	return device, err
}

func addNetwork(h *vz.VirtualMachineConfiguration, cfg *vm.Config) error {
	if cfg.NIC == nil {
		return nil
	}
	wire, err := vz.NewFileHandleNetworkDeviceAttachment(cfg.NIC)
	if err != nil {
		return err
	}
	if err := wire.SetMaximumTransmissionUnit(subnet.MTU); err != nil {
		return err
	}
	device, err := vz.NewVirtioNetworkDeviceConfiguration(wire)
	if err != nil {
		return err
	}
	address, err := net.ParseMAC(subnet.GuestMAC)
	if err != nil {
		return err
	}
	mac, err := vz.NewMACAddress(address)
	if err != nil {
		return err
	}
	device.SetMACAddress(mac)
	h.SetNetworkDevicesVirtualMachineConfiguration([]*vz.VirtioNetworkDeviceConfiguration{device})
	return nil
}

func addConsole(h *vz.VirtualMachineConfiguration, line *serial) error {
	// vz only stores descriptor numbers, so the files stay open while the machine runs.
	attachment, err := vz.NewFileHandleSerialPortAttachment(line.input, line.output)
	if err != nil {
		return err
	}
	port, err := vz.NewVirtioConsoleDeviceSerialPortConfiguration(attachment)
	if err != nil {
		return err
	}
	h.SetSerialPortsVirtualMachineConfiguration([]*vz.VirtioConsoleDeviceSerialPortConfiguration{port})
	return nil
}

// addRest adds the vsock device and a source of entropy.
func addRest(h *vz.VirtualMachineConfiguration) error {
	socket, err := vz.NewVirtioSocketDeviceConfiguration()
	if err != nil {
		return err
	}
	h.SetSocketDevicesVirtualMachineConfiguration([]vz.SocketDeviceConfiguration{socket})
	entropy, err := vz.NewVirtioEntropyDeviceConfiguration()
	if err != nil {
		return err
	}
	h.SetEntropyDevicesVirtualMachineConfiguration([]*vz.VirtioEntropyDeviceConfiguration{entropy})
	return nil
}
