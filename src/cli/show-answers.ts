export async function showAnswers(): Promise<void> {}
