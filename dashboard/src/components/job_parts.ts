/** The charts of a job and all that is drawn like them: one script, since they share most of it. */
export { JobCharts } from './job_charts';
export { JobMode } from './job_mode';
export { JobTrafficView } from './job_traffic';
