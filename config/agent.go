package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// NewAgentID returns a new, unique id.
func NewAgentID() AgentID { return AgentID(NewUUID()) }

// NewUUID returns a UUID of version 4, in capitals as the desktop app writes them.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

const nameAllowed = "1 to 64 letters (a to z), digits, dashes and spaces, with a letter or digit at either end"

// NameAgent parses an agent's name as a person writes it. Like the desktop app, it turns
// capitals into small letters and spaces into dashes. Other invalid characters are errors
// instead of being dropped, so that different names stay different. "root" is reserved.
func NameAgent(text string) (AgentName, error) {
	name, err := ParseAgentName(strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'A' && r <= 'Z': // beyond ASCII, capitals are not one to one
			return r - 'A' + 'a'
		}
		return r
	}, text))
	switch {
	case err != nil:
		return "", notAllowed("read agent name", text, nameAllowed)
	case name == "root":
		return "", fault.Newf(fault.InvalidArgs, "read agent name", text, "the name root is reserved").Advise("Choose another name.")
	}
	return name, nil
}

// A Linux user is "agent-" and the agent's name. Long names are shortened: they keep
// their beginning and end with a digest of the whole name.
const (
	userPrefix = "agent-" // keeps agents apart from the distribution's own users
	maxUser    = 32       // bytes, the limit of shadow's tools and of login records
	digestLen  = 16       // 80 bits in base 32
)

var digestText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// shortened matches names that look shortened. They are shortened too, so that no two
// names have the same user.
var shortened = regexp.MustCompile(fmt.Sprintf(`^.*-[a-z2-7]{%d}$`, digestLen))

// User returns the Linux user for the name. If another agent has it already, use
// OtherUser.
func (n AgentName) User() LinuxUser {
	plain := userPrefix + string(n)
	if len(plain) < maxUser || len(plain) == maxUser && !shortened.MatchString(plain) {
		return LinuxUser(plain)
	}
	return n.userOf(string(n))
}

// OtherUser returns a user that is unique to the agent. It is for a name whose User belongs
// to an agent that has since been renamed.
func (n AgentName) OtherUser(id AgentID) LinuxUser { return n.userOf(string(n) + "\n" + string(id)) }

func (n AgentName) userOf(what string) LinuxUser {
	sum := sha256.Sum256([]byte(what))
	digest := digestText.EncodeToString(sum[:])[:digestLen]
	room := maxUser - len(userPrefix) - 1 - digestLen
	// Padded to the full length, to differ from all names that are not shortened.
	begin := string(n) + strings.Repeat("-", max(0, room-len(n)))
	return LinuxUser(userPrefix + begin[:room] + "-" + digest)
}
