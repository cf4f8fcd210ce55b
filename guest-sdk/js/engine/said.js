// What an import refused with: the engine throws an Error around it.
export function said(error) {
  return error?.payload ?? error;
}
