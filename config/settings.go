// Package config defines the settings, the paths of the home folder and the names of agents, plugins and other objects.
package config

import "slices"

// Settings are the settings in sandbox.json. The zero value is not valid: see Defaults and
// Load.
type Settings struct {
	// AutoStart starts the VM with the daemon.
	AutoStart bool
	// AutoRestart restarts the VM after it has crashed or stopped answering.
	AutoRestart bool
	// IdleStopMinutes is how long the VM may be unused before it is stopped; 0 means
	// forever.
	IdleStopMinutes int
	CPUs            int
	MemoryGB        int
	Network         Network
	// NetworkRules are rules for all agents. They come before an agent's own.
	NetworkRules []NetworkRule
	// Pack selects the guest's pack.
	Pack PackRef
	// DiskGB is the size of the writable disk. It can grow, not shrink.
	DiskGB int
	// Mirrors are the package repositories for the toolbox, tried in this order.
	Mirrors []MirrorURL
	// Toolbox lists the packages to add to a bare base.
	Toolbox []PackageName
	// Secrets selects the store of agents' secrets.
	Secrets SecretStore
	// Bridge bounds the requests of programs in the guest.
	Bridge BridgeLimits
	// Inference configures the model for agents.
	Inference Inference
	// MCP configures MCP over HTTP.
	MCP MCP
	// History configures the checkpoints of agents' homes.
	History History
	// Mounts configures the mounting of folders of this computer.
	Mounts Mounts
}

// The bounds of the settings.
const (
	minCPUs, maxCPUs         = 1, 8    // like the desktop app; more virtual processors than real ones slow the guest down
	minMemoryGB, maxMemoryGB = 1, 8    // node and pip need 1 GiB; more than 8 takes too much from the desktop
	minDiskGB, maxDiskGB     = 1, 1024 // the disk is sparse, so the upper bound only catches typos
	maxIdleStopMinutes       = 1440    // a day
	maxListItems             = 256     // mirrors, packages and network rules; each flow is compared with the rules
)

// Network controls what the guest can connect to.
type Network string

const (
	NetworkOutbound Network = "outbound" // through the host's own connection
	NetworkNone     Network = "none"     // nothing at all
)

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{
		AutoStart:   true,
		AutoRestart: true,
		CPUs:        2,
		MemoryGB:    2,
		Network:     NetworkOutbound, NetworkRules: []NetworkRule{},
		Pack:   PackAuto,
		DiskGB: 8,
		// Alpine's own, and one run by others in case it is down.
		Mirrors: []MirrorURL{"https://dl-cdn.alpinelinux.org/alpine", "https://mirrors.edge.kernel.org/alpine"},
		Toolbox: []PackageName{
			"bash", "coreutils", "findutils", "grep", "sed", "curl", "wget", "git", "jq", "python3", "py3-pip", "py3-virtualenv",
			"nodejs", "npm", "ripgrep", "openssh-client", "lftp", "rsync", "less", "procps", "ca-certificates", "tzdata",
		},
		Secrets:   systemSecretStore(),
		Bridge:    bridgeDefaults(),
		Inference: inferenceDefaults(),
		MCP:       MCP{Origins: []WebOrigin{}},
		History:   historyDefaults(),
		Mounts:    Mounts{Never: []HostFolder{}},
	}
}

// EffectOf returns when a change of the key takes effect; unknown keys are NextStart.
func EffectOf(key string) Effect { return fields().effect(key) }

// fields returns the settings in display order.
func fields() table[Settings] {
	return append(table[Settings]{
		live(boolField("autoStart", "start the guest when the daemon starts", func(s *Settings) *bool { return &s.AutoStart })),
		intField("cpus", "processors of the guest", minCPUs, maxCPUs, func(s *Settings) *int { return &s.CPUs }),
		intField("memoryGB", "memory of the guest", minMemoryGB, maxMemoryGB, func(s *Settings) *int { return &s.MemoryGB }),
		textField("network", "what the guest can connect to outside of this computer", networkAllowed, parseNetwork, func(s *Settings) *Network { return &s.Network }),
		live(rulesField("networkRules", "network rules for all agents, before their own", func(s *Settings) *[]NetworkRule { return &s.NetworkRules })),
		textField("pack", "what the guest is made of", packAllowed, ParsePackRef, func(s *Settings) *PackRef { return &s.Pack }),
		intField("diskGB", "size of the guest's disk; it never shrinks before the next reset", minDiskGB, maxDiskGB, func(s *Settings) *int { return &s.DiskGB }),
		live(boolField("autoRestart", "start the guest again when it has crashed or does not answer", func(s *Settings) *bool { return &s.AutoRestart })),
		live(intField("idleStopMinutes", "minutes without use after which the guest is stopped; 0 is never", 0, maxIdleStopMinutes, func(s *Settings) *int { return &s.IdleStopMinutes })),
		listField("mirrors", "Alpine's package mirrors, tried in this order", mirrorAllowed, parseMirrorURL, func(s *Settings) *[]MirrorURL { return &s.Mirrors }),
		listField("toolbox", "packages that are added to an Alpine guest", packageName.allowed, parsePackageName, func(s *Settings) *[]PackageName { return &s.Toolbox }),
		live(textField("secrets", "where secrets are kept", secretStoreAllowed, parseSecretStore, func(s *Settings) *SecretStore { return &s.Secrets })),
	}, slices.Concat(bridgeFields(), inferenceFields(), mcpFields(), historyFields(), mountFields())...)
}

// Keys returns the keys for File.Set in display order.
func Keys() []string { return fields().keys() }

// Describe describes the settings in display order.
func Describe() []Description { return fields().describe(Defaults()) }

// Differences returns the keys whose values differ.
func (s Settings) Differences(other Settings) []string { return fields().differences(&s, &other) }

// MarshalJSON writes every setting under its key in sandbox.json.
func (s Settings) MarshalJSON() ([]byte, error) { return fields().marshal(&s) }
