// Package export_windlass_job_run is where the generated bindings look for what the component exports. It is not generated.
package export_windlass_job_run

import (
	"windlass.dev/go/internal/wit/imports/windlass_job_run"
	"windlass.dev/go/internal/wit/imports/windlass_job_types"
	witTypes "windlass.dev/go/internal/wittypes"
)

// Attempt is set by the package windlass, which this one cannot import.
var Attempt func(windlass_job_types.Job) witTypes.Result[[]uint8, windlass_job_run.Failure]

// Run does the job's work.
func Run(job windlass_job_types.Job) witTypes.Result[[]uint8, windlass_job_run.Failure] {
	return Attempt(job)
}
