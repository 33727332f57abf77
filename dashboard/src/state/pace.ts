const pauseMilliseconds = 1000;

/**
 * Something that is done for each of many causes, but for one at a time and with a pause after it. Whatever is asked
 * meanwhile is done once more when the pause is over, so the last cause is never missed. `action` must not throw.
 */
export class Pace {
  private busy = false;
  private again = false;

  constructor(private readonly action: () => Promise<unknown>) {}

  ask(): void {
    this.again = true;
    if (!this.busy) void this.run();
  }

  private async run(): Promise<void> {
    this.busy = true;
    while (this.again) {
      this.again = false;
      await this.action();
      await new Promise((resolve) => setTimeout(resolve, pauseMilliseconds));
    }
    this.busy = false;
  }
}
