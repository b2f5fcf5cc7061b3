package image

import (
	"cmp"
	"context"
)

// Verify verifies all files.
func (i Image) Verify(ctx context.Context) error { return cmp.Or(i.VerifyBoot(ctx), i.VerifyBase(ctx)) }
