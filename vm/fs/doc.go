// Package fs serves a folder of the host to a guest by FUSE, and nothing else of the host.
//
// Requests come over a stream (stream.go) or from a virtqueue (package virtiofs). Each is checked
// (request.go) before it is parsed (protocol.go). The rest is the file system (session.go and the other
// files). What systems differ in is in host_linux.go and host_darwin.go.
//
// On macOS, a file that was removed cannot be opened again, times have microseconds, there are no
// quotas, and holes, reservations and copies on the host are not served.
//
// # What a request can reach
//
// A node is a file that the guest's kernel knows. Here it is a place (the parent's node and a name)
// and an identity (device, inode number, time of birth), not a descriptor: a guest may know millions
// of files, and only open files and folders in use cost descriptors. Every name is one component,
// resolved in its parent's descriptor without following links, and the file found there must have
// the node's identity. Otherwise the node is stale (ESTALE), and the guest looks it up again. A
// folder's place is checked again once a second, so the guest loses a folder that the host's user
// moves out of the share within that time. An open file stays open, as for any program.
//
// The guest sees and makes only regular files, folders and symbolic links, which it follows itself.
//
// # Owners and modes
//
// On disk everything belongs to the user who runs this process. The share's policy ([vm.Ownership])
// decides which owner the guest sees. Setting that owner does nothing; other changes of the owner
// fail with EPERM. Set-user-ID and set-group-ID bits are neither stored nor shown. The guest's
// kernel checks permissions against the owner and mode that it sees, then the host's kernel checks
// this process: not even the guest's root can read a file that the host's user cannot. Under
// OwnershipEverybody, the guest sees the owner's permissions for all and no sticky bit, and cannot
// add write permission for the group and others.
//
// # Freshness
//
// The guest sees a change by the host within a second under OwnershipSubtree, and at the next
// look-up or open under the other policies, which must not show one user what was computed for
// another. The guest's own changes are written through: its write(2) returns when the host's kernel
// has the data, and fails if the quota or the disk is full. If the share's own folder is on a
// network file system, that may happen only at close(2). fsync reaches the host's disk; sync(2) and
// syncfs(2) do not. The guest's kernel keeps locks, so they work between programs of the guest, not
// between guest and host.
package fs
