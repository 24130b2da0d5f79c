/** Identifies a process over all hosts and reboots. */
export interface ProcessIdentity {
  host: string;
  /** Changes at every boot of the host. */
  bootId: string;
  /**
   * The namespace of its pid: containers of a host count separately. Empty if unknown, absent in
   * records of older versions.
   */
  pidSpace?: string;
  pid: number;
  /** Start time of the process in system units, to detect a reused pid. */
  startTime: string;
}

/** What the run floor knows of processes; the command line passes the real one. */
export interface Processes {
  self(): ProcessIdentity;
  /**
   * Whether a process still lives; `"elsewhere"` if this host cannot tell: then its heartbeat
   * decides.
   */
  look(identity: ProcessIdentity): "alive" | "dead" | "elsewhere";
  /**
   * Ids of leaders in this process that ended and could not write so: the process lives on, and
   * they do not lead. Absent if it ends with its leaders.
   */
  readonly ended?: Set<string>;
}
