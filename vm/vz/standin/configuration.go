package vz

import (
	"fmt"
	"os"
)

// refusesEnv makes Validate fail: with Apple's text for "entitlement" and "hardware", without a
// reason for "silently".
const refusesEnv = "VZ_STANDIN_REFUSES"

const (
	mib       = 1 << 20
	minMemory = 4 * mib
	maxMemory = 64 << 30
	maxCPUs   = 64

	qemuMAC = "52:54:00:6f:73:61" // of every machine of the QEMU driver
)

type BootLoader interface {
	nsObject
	bootLoader()
}

type baseBootLoader struct{}

func (*baseBootLoader) bootLoader() {}

type LinuxBootLoader struct {
	kernel, initrd, commandLine string
	*pointer
	*baseBootLoader
}

type LinuxBootLoaderOption func(b *LinuxBootLoader) error

func NewLinuxBootLoader(vmlinuz string, opts ...LinuxBootLoaderOption) (*LinuxBootLoader, error) {
	if _, err := os.Stat(vmlinuz); err != nil {
		return nil, fmt.Errorf("invalid linux kernel path: %w", err)
	}
	b := &LinuxBootLoader{kernel: vmlinuz}
	for _, o := range opts {
		if err := o(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func WithCommandLine(cmdLine string) LinuxBootLoaderOption {
	return func(b *LinuxBootLoader) error { b.commandLine = cmdLine; return nil }
}

func WithInitrd(initrdPath string) LinuxBootLoaderOption {
	return func(b *LinuxBootLoader) error {
		if _, err := os.Stat(initrdPath); err != nil {
			return fmt.Errorf("invalid initial RAM disk path: %w", err)
		}
		b.initrd = initrdPath
		return nil
	}
}

type VirtualMachineConfiguration struct {
	*pointer
	loader   *LinuxBootLoader
	cpus     uint
	memory   uint64
	disks    []StorageDeviceConfiguration
	shares   []DirectorySharingDeviceConfiguration
	networks []*VirtioNetworkDeviceConfiguration
	serials  []*VirtioConsoleDeviceSerialPortConfiguration
	sockets  []SocketDeviceConfiguration
	entropy  []*VirtioEntropyDeviceConfiguration
}

func NewVirtualMachineConfiguration(bootLoader BootLoader, cpu uint, memorySize uint64) (*VirtualMachineConfiguration, error) {
	return &VirtualMachineConfiguration{loader: bootLoader.(*LinuxBootLoader), cpus: cpu, memory: memorySize}, nil
}

func VirtualMachineConfigurationMinimumAllowedMemorySize() uint64 { return minMemory }
func VirtualMachineConfigurationMaximumAllowedMemorySize() uint64 { return maxMemory }
func VirtualMachineConfigurationMinimumAllowedCPUCount() uint     { return 1 }
func VirtualMachineConfigurationMaximumAllowedCPUCount() uint     { return maxCPUs }

func (v *VirtualMachineConfiguration) Validate() (bool, error) {
	switch os.Getenv(refusesEnv) {
	case "entitlement":
		return false, failure(ErrorInvalidVirtualMachineConfiguration, "Invalid virtual machine configuration. The process doesn’t have the “com.apple.security.virtualization” entitlement.")
	case "hardware":
		return false, failure(ErrorInternal, "Virtualization is not available on this hardware.")
	case "silently":
		return false, nil
	}
	if why := v.invalid(); why != "" {
		return false, failure(ErrorInvalidVirtualMachineConfiguration, "Invalid virtual machine configuration. %s", why)
	}
	return true, nil
}

func (v *VirtualMachineConfiguration) invalid() string {
	switch {
	case v.cpus < 1 || v.cpus > maxCPUs:
		return "The number of CPUs is out of range."
	case v.memory%mib != 0 || v.memory < minMemory || v.memory > maxMemory:
		return "The memory size is out of range or not a multiple of 1 MiB."
	case len(v.sockets) > 1:
		return "Only one socket device is allowed."
	}
	tags := map[string]bool{}
	for _, s := range v.shares {
		device := s.(*VirtioFileSystemDeviceConfiguration)
		if device.share == nil {
			return "A file system device has no share."
		}
		if tags[device.tag] {
			return "Two file system devices have one tag."
		}
		tags[device.tag] = true
	}
	for _, n := range v.networks {
		if n.attachment == nil {
			return "A network device has no attachment."
		}
		if mtu := n.attachment.(*FileHandleNetworkDeviceAttachment).mtu; mtu < 1500 || mtu > 65535 {
			return "The maximum transmission unit is out of range."
		}
		if n.mac == nil || n.mac.address.String() != qemuMAC {
			return "The stand-in knows no other MAC address than " + qemuMAC + "."
		}
	}
	return ""
}

func (v *VirtualMachineConfiguration) SetStorageDevicesVirtualMachineConfiguration(cs []StorageDeviceConfiguration) {
	v.disks = cs
}

func (v *VirtualMachineConfiguration) SetDirectorySharingDevicesVirtualMachineConfiguration(cs []DirectorySharingDeviceConfiguration) {
	v.shares = cs
}

func (v *VirtualMachineConfiguration) SetNetworkDevicesVirtualMachineConfiguration(cs []*VirtioNetworkDeviceConfiguration) {
	v.networks = cs
}

func (v *VirtualMachineConfiguration) SetSerialPortsVirtualMachineConfiguration(cs []*VirtioConsoleDeviceSerialPortConfiguration) {
	v.serials = cs
}

func (v *VirtualMachineConfiguration) SetSocketDevicesVirtualMachineConfiguration(cs []SocketDeviceConfiguration) {
	v.sockets = cs
}

func (v *VirtualMachineConfiguration) SetEntropyDevicesVirtualMachineConfiguration(cs []*VirtioEntropyDeviceConfiguration) {
	v.entropy = cs
}
