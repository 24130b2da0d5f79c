/** What tells one process from every other, on any host, over reboots. */
export interface ProcessIdentity {
  host: string;
  /** Changes at every boot of the host. */
  bootId: string;
  pid: number;
  /** Start time of the process in units of its system, so that a reused pid is not mistaken. */
  startTime: string;
}

/** What the run floor may know of processes; the command line passes the real thing. */
export interface Processes {
  self(): ProcessIdentity;
  /** Whether a process of this host still lives; `"elsewhere"` where it cannot be seen. */
  look(identity: ProcessIdentity): "alive" | "dead" | "elsewhere";
}
