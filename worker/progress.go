package worker

// Progress is how far a restore or an upload has come.
type Progress struct {
	// CheckpointID is the checkpoint that is restored or handed in.
	CheckpointID int64
	// Restoring tells a restore from an upload.
	Restoring bool
	// Bytes have been transferred, of Total, which is -1 where it is not known: an upload is
	// encoded while it is sent.
	Bytes, Total int64
	// Entries have been transferred.
	Entries int64
	// Done tells that this is the last word on this transfer.
	Done bool
}
