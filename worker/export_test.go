package worker

import "time"

// SetUploadPatience shortens the time after which a stuck upload is begun again.
func (w *Worker) SetUploadPatience(d time.Duration) { w.uploadPatience = d }
