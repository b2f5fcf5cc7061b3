package sources

import (
	"fmt"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
)

// What a pack and its images take.
const (
	// alpineRoom: a release of 70 MB, its pack and bare images of 100, and the toolbox of 200,
	// three times while it is installed.
	alpineRoom = 1 << 30
	// mostRoom is that with the largest known root file system, a Debian's: two copies of
	// 400 MB, a kernel, and the work between.
	mostRoom = 2 << 30
)

// Room says what is free on the disk of a folder, and refuses one on which making the pack that
// want means to Get would go on until it is full.
func Room(dir, want string) (free string, err error) {
	const op = "look for room on disk"
	const advice = "Free some space, or have another home: export " + config.HomeVariable + "=/a/folder/of/yours"
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", fault.New(fault.Unavailable, op, dir, err).Advise(advice)
	}
	bytes := uint64(s.Bavail) * uint64(s.Bsize)
	free = fmt.Sprintf("%.1f GiB free", float64(bytes)/(1<<30))
	need := uint64(mostRoom)
	if want == Auto || want == Alpine {
		need = alpineRoom
	}
	if bytes < need {
		return free, fault.Newf(fault.Rejected, op, dir, "%s, a pack and its images need %d GiB", free, need>>30).Advise(advice)
	}
	return free, nil
}
