package protocol

import (
	"regexp"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// HomesDir is where the homes of agents are.
const HomesDir = "/workspace/agents"

// SharedDir is the folder that all agents share.
const SharedDir = "/workspace/shared"

// maxUser is the length of a user in login records.
const maxUser = 32

// No repeat counts: they slow down compiling at each start of the guest program.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

// CheckUser validates the user of a room, whose name is also used for folders. The host has checked
// everything else of a room.
func CheckUser(user string) error {
	if len(user) > maxUser || !userName.MatchString(user) || user == "root" {
		return fault.Newf(fault.InvalidArgs, "check room", printable.Clip(user), "a room's user has at most 32 lower-case letters, digits, - and _")
	}
	return nil
}
