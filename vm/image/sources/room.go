package sources

import (
	"fmt"
	"runtime"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
)

// NeedRoom is the space for a pack and its images with the largest known root file system:
// two copies of 400 MB, a kernel and temporary files.
const NeedRoom = 2 << 30

// Room returns the free space on the disk of a folder, or an error if it is too little to
// make a pack.
func Room(dir string) (free string, err error) {
	const op = "check free disk space"
	advice := roomAdvice(runtime.GOOS)
	bytes, err := clone.Free(dir)
	if err != nil {
		return "", fault.New(fault.Unavailable, op, dir, err).Advise(advice)
	}
	free = fmt.Sprintf("%.1f GiB free", float64(bytes)/(1<<30))
	if bytes < NeedRoom {
		return free, fault.Newf(fault.Rejected, op, dir, "%s, a pack and its images need %d GiB", free, NeedRoom>>30).Advise(advice)
	}
	return free, nil
}

// roomAdvice says how to make room. APFS frees purgeable space later than a large write needs it.
func roomAdvice(system string) string {
	advice := "Free disk space, or use another home: export " + config.HomeVariable + "=/a/folder/of/yours"
	if system == "darwin" {
		advice += ". Space that Finder calls purgeable does not count. To free it: tmutil thinlocalsnapshots / 4000000000 4"
	}
	return advice
}
