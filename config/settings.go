// Package config is what a person may choose and where everything lives: the settings file, the home folder and the names that are parsed once.
package config

import (
	"encoding/json"
	"reflect"
	"slices"
)

// Settings are the choices in sandbox.json. The zero value is not valid:
// Defaults and Load return valid ones.
type Settings struct {
	// AutoStart starts the VM with the supervisor.
	AutoStart bool
	// AutoRestart starts it again after it crashed or fell silent.
	AutoRestart bool
	// IdleStopMinutes is after how many minutes in which nobody used the VM it
	// is stopped; 0 means never.
	IdleStopMinutes int
	CPUs            int
	MemoryGB        int
	Network         Network
	// Pack is what the guest is made of.
	Pack PackRef
	// DiskGB is the size of the writable disk. It can grow, not shrink.
	DiskGB int
	// Mirrors are the package repositories that a bake tries, in this order.
	Mirrors []MirrorURL
	// Toolbox are the packages that a bake puts into a bare base.
	Toolbox []PackageName
	// Secrets is where agents' secrets are kept.
	Secrets SecretStore
}

// The bounds of the settings.
const (
	MinCPUs, MaxCPUs         = 1, 8    // what the desktop app offers; more virtual processors than real ones only slow the guest
	MinMemoryGB, MaxMemoryGB = 1, 8    // below 1 GiB node and pip fail; above 8 the guest crowds out the desktop
	MinDiskGB, MaxDiskGB     = 1, 1024 // the disk is sparse, so the upper bound only catches a slip of the keyboard
	MaxIdleStopMinutes       = 1440    // a day: whoever wants longer wants never, which is 0
	MaxListItems             = 256     // mirrors and packages; a bake with more is a mistake
)

// Network is whether the guest may reach anything outside.
type Network string

const (
	NetworkOutbound Network = "outbound" // out through the host's own connection
	NetworkNone     Network = "none"     // nothing at all
)

// Defaults returns the settings of somebody who chose nothing.
func Defaults() Settings {
	return Settings{
		AutoStart:   true,
		AutoRestart: true,
		CPUs:        2,
		MemoryGB:    2,
		Network:     NetworkOutbound,
		Pack:        PackAuto,
		DiskGB:      8,
		// Alpine's own, and one that others keep for the time when that is down.
		Mirrors: []MirrorURL{"https://dl-cdn.alpinelinux.org/alpine", "https://mirrors.edge.kernel.org/alpine"},
		Toolbox: []PackageName{
			"bash", "coreutils", "findutils", "grep", "sed", "curl", "wget", "git", "jq", "python3", "py3-pip", "py3-virtualenv",
			"nodejs", "npm", "ripgrep", "openssh-client", "lftp", "rsync", "less", "procps", "ca-certificates", "tzdata",
		},
		Secrets: systemSecretStore(),
	}
}

// field is one key of sandbox.json: the only place that knows its name, its
// values and where it is kept.
type field struct {
	key     string
	effect  Effect
	allowed string                            // the values that are allowed, for a person
	raw     func(text string) json.RawMessage // a value from a command line as JSON, if it is one
	set     func(*Settings, json.RawMessage) error
	get     func(*Settings) any
}

// Effect says from when a changed setting counts.
type Effect string

// The effects.
const (
	Live      Effect = "live"       // at once
	NextStart Effect = "next start" // when the VM is started the next time
)

// EffectOf says from when a key counts; an unknown key is NextStart.
func EffectOf(key string) Effect {
	if f, ok := fieldOf(key); ok && f.effect != "" {
		return f.effect
	}
	return NextStart
}

// live marks a field as one that counts at once.
func live(f field) field {
	f.effect = Live
	return f
}

// fields are the keys of sandbox.json in the order they are shown.
func fields() []field {
	return []field{
		live(boolField("autoStart", func(s *Settings) *bool { return &s.AutoStart })),
		intField("cpus", MinCPUs, MaxCPUs, func(s *Settings) *int { return &s.CPUs }),
		intField("memoryGB", MinMemoryGB, MaxMemoryGB, func(s *Settings) *int { return &s.MemoryGB }),
		textField("network", networkAllowed, ParseNetwork, func(s *Settings) *Network { return &s.Network }),
		textField("pack", packAllowed, ParsePackRef, func(s *Settings) *PackRef { return &s.Pack }),
		intField("diskGB", MinDiskGB, MaxDiskGB, func(s *Settings) *int { return &s.DiskGB }),
		live(boolField("autoRestart", func(s *Settings) *bool { return &s.AutoRestart })),
		live(intField("idleStopMinutes", 0, MaxIdleStopMinutes, func(s *Settings) *int { return &s.IdleStopMinutes })),
		listField("mirrors", mirrorAllowed, ParseMirrorURL, func(s *Settings) *[]MirrorURL { return &s.Mirrors }),
		listField("toolbox", packageName.allowed, ParsePackageName, func(s *Settings) *[]PackageName { return &s.Toolbox }),
		live(textField("secrets", secretStoreAllowed, ParseSecretStore, func(s *Settings) *SecretStore { return &s.Secrets })),
	}
}

func fieldOf(key string) (field, bool) {
	all := fields()
	i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return all[i], true
}

// Keys are the keys that Set knows, in the order they are shown.
func Keys() []string {
	var keys []string
	for _, f := range fields() {
		keys = append(keys, f.key)
	}
	return keys
}

// Differences lists the keys of what two settings do not have in common.
func (s Settings) Differences(other Settings) []string {
	var keys []string
	for _, f := range fields() {
		if !reflect.DeepEqual(f.get(&s), f.get(&other)) {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// MarshalJSON writes every setting under its key in sandbox.json.
func (s Settings) MarshalJSON() ([]byte, error) {
	var d document
	for _, f := range fields() {
		raw, err := json.Marshal(f.get(&s))
		if err != nil {
			return nil, err
		}
		d.put(f.key, raw)
	}
	return d.bytes(), nil
}
