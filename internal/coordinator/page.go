package coordinator

// PageBytes is about how many bytes one page of a list has: one that would be larger ends early and
// names what comes next. A thousand checkpoints can have 70 MB of labels.
const PageBytes = 1 << 20

// Page counts what a page takes in. Limit is the most items.
type Page struct {
	Limit        int
	items, bytes int
}

// Takes tells whether an item of that size goes into the page, which has one at least.
func (p *Page) Takes(size int) bool {
	if p.items > 0 && (p.items == p.Limit || p.bytes+size > PageBytes) {
		return false
	}
	p.items++
	p.bytes += size
	return true
}

// fixedSize is about what the numbers of one item take in an answer.
const fixedSize = 256

// Size is about how many bytes a checkpoint has in an answer.
func (c *Checkpoint) Size() int {
	size := fixedSize + len(c.Description) + len(c.Damage)
	for name, value := range c.Labels {
		size += len(name) + len(value)
	}
	for _, task := range c.MissingTasks {
		size += len(task)
	}
	if c.Failure != nil {
		size += len(c.Failure.TaskID) + len(c.Failure.Message)
	}
	return size
}

// Size is about how many bytes a task has in an answer.
func (t *TaskState) Size() int { return fixedSize + len(t.TaskID) }

// Size is about how many bytes a job has in an answer.
func (j *JobState) Size() int {
	size := 3*fixedSize + len(j.Job) + len(j.Settings.Description)
	if j.LastFailure != nil {
		size += len(j.LastFailure.TaskID) + len(j.LastFailure.Message)
	}
	return size
}
