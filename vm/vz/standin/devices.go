package vz

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Disks.

type StorageDeviceAttachment interface {
	nsObject
	storageDeviceAttachment()
}

type baseStorageDeviceAttachment struct{}

func (*baseStorageDeviceAttachment) storageDeviceAttachment() {}

type DiskImageCachingMode int

const (
	DiskImageCachingModeAutomatic DiskImageCachingMode = iota
	DiskImageCachingModeUncached
	DiskImageCachingModeCached
)

type DiskImageSynchronizationMode int

const (
	DiskImageSynchronizationModeFull DiskImageSynchronizationMode = 1 + iota
	DiskImageSynchronizationModeFsync
	DiskImageSynchronizationModeNone
)

type DiskImageStorageDeviceAttachment struct {
	*pointer
	*baseStorageDeviceAttachment
	path     string
	readOnly bool
}

// NewDiskImageStorageDeviceAttachmentWithCacheAndSync accepts only modes that are safe for Linux file
// systems.
func NewDiskImageStorageDeviceAttachmentWithCacheAndSync(diskPath string, readOnly bool, cachingMode DiskImageCachingMode, syncMode DiskImageSynchronizationMode) (*DiskImageStorageDeviceAttachment, error) {
	if cachingMode != DiskImageCachingModeCached || syncMode != DiskImageSynchronizationModeFsync {
		return nil, fmt.Errorf("the stand-in knows no caching mode %d with synchronization mode %d", cachingMode, syncMode)
	}
	info, err := os.Stat(diskPath)
	if err != nil {
		return nil, err
	}
	if info.Size()%512 != 0 {
		return nil, failure(ErrorInvalidDiskImage, "Invalid disk image. The disk image size is not a multiple of 512 bytes.")
	}
	return &DiskImageStorageDeviceAttachment{path: diskPath, readOnly: readOnly}, nil
}

type StorageDeviceConfiguration interface {
	nsObject
	storageDeviceConfiguration()
	Attachment() StorageDeviceAttachment
}

type baseStorageDeviceConfiguration struct{ attachment StorageDeviceAttachment }

func (*baseStorageDeviceConfiguration) storageDeviceConfiguration()           {}
func (b *baseStorageDeviceConfiguration) Attachment() StorageDeviceAttachment { return b.attachment }

type VirtioBlockDeviceConfiguration struct {
	*pointer
	*baseStorageDeviceConfiguration
}

func NewVirtioBlockDeviceConfiguration(attachment StorageDeviceAttachment) (*VirtioBlockDeviceConfiguration, error) {
	return &VirtioBlockDeviceConfiguration{baseStorageDeviceConfiguration: &baseStorageDeviceConfiguration{attachment}}, nil
}

// Shares.

type DirectoryShare interface {
	nsObject
	directoryShare()
}

type baseDirectoryShare struct{}

func (*baseDirectoryShare) directoryShare() {}

type SharedDirectory struct {
	*pointer
	path     string
	readOnly bool
}

func NewSharedDirectory(dirPath string, readOnly bool) (*SharedDirectory, error) {
	if _, err := os.Stat(dirPath); err != nil {
		return nil, err
	}
	return &SharedDirectory{path: dirPath, readOnly: readOnly}, nil
}

type SingleDirectoryShare struct {
	*pointer
	*baseDirectoryShare
	directory *SharedDirectory
}

func NewSingleDirectoryShare(share *SharedDirectory) (*SingleDirectoryShare, error) {
	return &SingleDirectoryShare{directory: share}, nil
}

type DirectorySharingDeviceConfiguration interface {
	nsObject
	directorySharingDeviceConfiguration()
}

type baseDirectorySharingDeviceConfiguration struct{}

func (*baseDirectorySharingDeviceConfiguration) directorySharingDeviceConfiguration() {}

type VirtioFileSystemDeviceConfiguration struct {
	*pointer
	*baseDirectorySharingDeviceConfiguration
	tag   string
	share DirectoryShare
}

func NewVirtioFileSystemDeviceConfiguration(tag string) (*VirtioFileSystemDeviceConfiguration, error) {
	if tag == "" || len(tag) > 36 {
		return nil, failure(ErrorInvalidVirtualMachineConfiguration, "Invalid virtual machine configuration. The tag is invalid.")
	}
	return &VirtioFileSystemDeviceConfiguration{tag: tag}, nil
}

func (c *VirtioFileSystemDeviceConfiguration) SetDirectoryShare(share DirectoryShare) {
	c.share = share
}

// Network.

type NetworkDeviceAttachment interface {
	nsObject
	fmt.Stringer
	networkDeviceAttachment()
}

type baseNetworkDeviceAttachment struct{}

func (*baseNetworkDeviceAttachment) networkDeviceAttachment() {}

// FileHandleNetworkDeviceAttachment has only the number of a descriptor, as the serial port's.
type FileHandleNetworkDeviceAttachment struct {
	*pointer
	*baseNetworkDeviceAttachment
	fd, mtu int
}

func NewFileHandleNetworkDeviceAttachment(file *os.File) (*FileHandleNetworkDeviceAttachment, error) {
	fd := int(file.Fd())
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	} else if kind != unix.SOCK_DGRAM {
		return nil, errors.New("the fileHandle must be a datagram socket")
	}
	return &FileHandleNetworkDeviceAttachment{fd: fd, mtu: 1500}, nil
}

func (f *FileHandleNetworkDeviceAttachment) SetMaximumTransmissionUnit(mtu int) error {
	f.mtu = mtu
	return nil
}

func (*FileHandleNetworkDeviceAttachment) String() string { return "FileHandleNetworkDeviceAttachment" }

type MACAddress struct {
	*pointer
	address net.HardwareAddr // nil for an invalid address
}

func NewMACAddress(macAddr net.HardwareAddr) (*MACAddress, error) {
	if len(macAddr) != 6 {
		return &MACAddress{}, nil
	}
	return &MACAddress{address: macAddr}, nil
}

type VirtioNetworkDeviceConfiguration struct {
	*pointer
	attachment NetworkDeviceAttachment
	mac        *MACAddress
}

func NewVirtioNetworkDeviceConfiguration(attachment NetworkDeviceAttachment) (*VirtioNetworkDeviceConfiguration, error) {
	return &VirtioNetworkDeviceConfiguration{attachment: attachment}, nil
}

func (v *VirtioNetworkDeviceConfiguration) SetMACAddress(macAddress *MACAddress) {
	if macAddress.address == nil {
		raise("the MAC address is nil")
	}
	v.mac = macAddress
}

// Console.

type SerialPortAttachment interface {
	nsObject
	serialPortAttachment()
}

type baseSerialPortAttachment struct{}

func (*baseSerialPortAttachment) serialPortAttachment() {}

// FileHandleSerialPortAttachment has only the numbers of descriptors, like the real one: the program
// must keep the files open.
type FileHandleSerialPortAttachment struct {
	*pointer
	*baseSerialPortAttachment
	read, write int
}

func NewFileHandleSerialPortAttachment(read, write *os.File) (*FileHandleSerialPortAttachment, error) {
	return &FileHandleSerialPortAttachment{read: int(read.Fd()), write: int(write.Fd())}, nil
}

type VirtioConsoleDeviceSerialPortConfiguration struct {
	*pointer
	attachment SerialPortAttachment
}

func NewVirtioConsoleDeviceSerialPortConfiguration(attachment SerialPortAttachment) (*VirtioConsoleDeviceSerialPortConfiguration, error) {
	return &VirtioConsoleDeviceSerialPortConfiguration{attachment: attachment}, nil
}

// The rest.

type VirtioEntropyDeviceConfiguration struct{ *pointer }

func NewVirtioEntropyDeviceConfiguration() (*VirtioEntropyDeviceConfiguration, error) {
	return &VirtioEntropyDeviceConfiguration{}, nil
}

type SocketDeviceConfiguration interface {
	nsObject
	socketDeviceConfiguration()
}

type baseSocketDeviceConfiguration struct{}

func (*baseSocketDeviceConfiguration) socketDeviceConfiguration() {}

type VirtioSocketDeviceConfiguration struct {
	*pointer
	*baseSocketDeviceConfiguration
}

func NewVirtioSocketDeviceConfiguration() (*VirtioSocketDeviceConfiguration, error) {
	return &VirtioSocketDeviceConfiguration{}, nil
}
