/** What tells one process from every other, on any host, over reboots. */
export interface ProcessIdentity {
  host: string;
  /** Changes at every boot of the host. */
  bootId: string;
  /**
   * What its pid counts in: containers of one host have numbers of their own. Empty where it cannot
   * be known, absent in records of older versions.
   */
  pidSpace?: string;
  pid: number;
  /** Start time of the process in units of its system, so that a reused pid is not mistaken. */
  startTime: string;
}

/** What the run floor may know of processes; the command line passes the real thing. */
export interface Processes {
  self(): ProcessIdentity;
  /**
   * Whether a process still lives that this one can see; `"elsewhere"` where that cannot be told:
   * then its heartbeat decides.
   */
  look(identity: ProcessIdentity): "alive" | "dead" | "elsewhere";
}
