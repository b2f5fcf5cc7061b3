// Package config is what a person may choose and where everything lives: the settings file, the home folder and the names that are parsed once.
package config

import "slices"

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
	// Bridge is how often programs in the guest may ask the host.
	Bridge BridgeLimits
	// Inference is which model answers agents.
	Inference Inference
	// MCP is where apps find agents' tools over HTTP.
	MCP MCP
}

// The bounds of the settings.
const (
	minCPUs, maxCPUs         = 1, 8    // what the desktop app offers; more virtual processors than real ones only slow the guest
	minMemoryGB, maxMemoryGB = 1, 8    // below 1 GiB node and pip fail; above 8 the guest crowds out the desktop
	minDiskGB, maxDiskGB     = 1, 1024 // the disk is sparse, so the upper bound only catches a slip of the keyboard
	maxIdleStopMinutes       = 1440    // a day: whoever wants longer wants never, which is 0
	maxListItems             = 256     // mirrors and packages; a bake with more is a mistake
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
		Secrets:   systemSecretStore(),
		Bridge:    bridgeDefaults(),
		Inference: inferenceDefaults(),
		MCP:       MCP{Origins: []WebOrigin{}},
	}
}

// EffectOf says when a key takes effect; an unknown key is NextStart.
func EffectOf(key string) Effect { return fields().effect(key) }

// fields are the keys of sandbox.json in the order they are shown.
func fields() table[Settings] {
	return append(table[Settings]{
		live(boolField("autoStart", "start the guest when the daemon starts", func(s *Settings) *bool { return &s.AutoStart })),
		intField("cpus", "processors of the guest", minCPUs, maxCPUs, func(s *Settings) *int { return &s.CPUs }),
		intField("memoryGB", "memory of the guest", minMemoryGB, maxMemoryGB, func(s *Settings) *int { return &s.MemoryGB }),
		textField("network", "what the guest reaches outside of this computer", networkAllowed, parseNetwork, func(s *Settings) *Network { return &s.Network }),
		textField("pack", "what the guest is made of", packAllowed, ParsePackRef, func(s *Settings) *PackRef { return &s.Pack }),
		intField("diskGB", "size of the guest's disk; it never shrinks before the next reset", minDiskGB, maxDiskGB, func(s *Settings) *int { return &s.DiskGB }),
		live(boolField("autoRestart", "start the guest again when it has crashed or does not answer", func(s *Settings) *bool { return &s.AutoRestart })),
		live(intField("idleStopMinutes", "stop a guest that nobody has used for so many minutes; 0 is never", 0, maxIdleStopMinutes, func(s *Settings) *int { return &s.IdleStopMinutes })),
		listField("mirrors", "Alpine's package mirrors, tried in this order", mirrorAllowed, parseMirrorURL, func(s *Settings) *[]MirrorURL { return &s.Mirrors }),
		listField("toolbox", "packages that are added to an Alpine guest", packageName.allowed, parsePackageName, func(s *Settings) *[]PackageName { return &s.Toolbox }),
		live(textField("secrets", "where secrets are kept", secretStoreAllowed, parseSecretStore, func(s *Settings) *SecretStore { return &s.Secrets })),
	}, slices.Concat(bridgeFields(), inferenceFields(), mcpFields())...)
}

// Keys are the keys that Set knows, in the order they are shown.
func Keys() []string { return fields().keys() }

// Describe says what there is to know of each key, in that order.
func Describe() []Description { return fields().describe(Defaults()) }

// Differences lists the keys of what two settings do not have in common.
func (s Settings) Differences(other Settings) []string { return fields().differences(&s, &other) }

// MarshalJSON writes every setting under its key in sandbox.json.
func (s Settings) MarshalJSON() ([]byte, error) { return fields().marshal(&s) }
