package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
)

// shareRoot is where the guest of boot finds its shares, by their tags.
const shareRoot = "/mnt"

// spec is the machine that the flags and settings describe, but for its image
// and its files.
func (f bootFlags) spec(s config.Settings) (boot.Spec, error) {
	spec := boot.Spec{
		Driver: driver(), Name: fmt.Sprintf("boot-%d", os.Getpid()), Hostname: "sandbox",
		CPUs: cmp.Or(f.cpus, s.CPUs), Memory: int64(s.MemoryGB) << 30, Network: vm.NetworkNone,
	}
	if f.network {
		spec.Network = vm.NetworkNAT
	}
	var err error
	if f.memory != "" {
		if spec.Memory, err = parseMemory(f.memory); err != nil {
			return boot.Spec{}, err
		}
	}
	for _, text := range f.shares {
		share, err := parseShare(text)
		if err != nil {
			return boot.Spec{}, err
		}
		spec.Shares = append(spec.Shares, share)
	}
	return spec, nil
}

// parseMemory reads a size such as 512M or 2G as bytes.
func parseMemory(text string) (int64, error) {
	wrong := fault.Newf(fault.InvalidArgs, "read --memory", text, "not a size").Advise("Write it as 512M or 2G.")
	if text == "" {
		return 0, wrong
	}
	shift, ok := map[byte]uint{'M': 20, 'm': 20, 'G': 30, 'g': 30}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 24) // what fits no computer is the driver's to refuse
	if !ok || err != nil {
		return 0, wrong
	}
	return int64(n) << shift, nil
}

// parseShare reads FOLDER:TAG or FOLDER:TAG:ro. What may be a tag, the driver
// knows.
func parseShare(text string) (boot.Share, error) {
	rest, readOnly := strings.CutSuffix(text, ":ro")
	at := strings.LastIndexByte(rest, ':')
	if at < 1 || at == len(rest)-1 {
		return boot.Share{}, fault.Newf(fault.InvalidArgs, "read --share", text, "not FOLDER:TAG").
			Advise("Write the folder, a colon and a short name for it: ~/project:project, with :ro at the end to protect it.")
	}
	folder, err := filepath.Abs(rest[:at])
	if err != nil {
		return boot.Share{}, fault.New(fault.InvalidArgs, "read --share", text, err)
	}
	tag := rest[at+1:]
	return boot.Share{
		Share:      vm.Share{Tag: tag, Path: folder, ReadOnly: readOnly, MinFree: boot.MinFree},
		MountPoint: filepath.Join(shareRoot, tag),
	}, nil
}

// packRef reads which pack a person at a shell means. Unlike in the settings,
// a path may be relative: it has a slash in it.
func packRef(text string) (config.PackRef, error) {
	if strings.ContainsRune(text, os.PathSeparator) {
		absolute, err := filepath.Abs(text)
		if err != nil {
			return "", fault.New(fault.InvalidArgs, "read pack", text, err)
		}
		text = absolute
	}
	return config.ParsePackRef(text)
}
