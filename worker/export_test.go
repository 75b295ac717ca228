package worker

import "time"

// SetTransferPatience shortens the time after which a stuck transfer is begun again.
func (w *Worker) SetTransferPatience(d time.Duration) { w.transferPatience = d }
