// The texts of the files in the composer.
import type { Row } from "./texts";

export const table = {
  attach: ["Attach files", "Dateien anhängen", "Adjuntar archivos"],
  attached: ["Attached files", "Angehängte Dateien", "Archivos adjuntos"],
  remove: ["Remove {0}", "{0} entfernen", "Quitar {0}"],
  again: ["Try again", "Erneut versuchen", "Reintentar"],
  againWith: ["Try again: {0}", "Erneut versuchen: {0}", "Reintentar: {0}"],
  sending: ["Sending {0}", "{0} wird gesendet", "Enviando {0}"],
  drop: ["Drop the files to attach them.", "Lassen Sie die Dateien los, um sie anzuhängen.", "Suelte los archivos para adjuntarlos."],

  wait: ["The files are still being sent.", "Die Dateien werden noch gesendet.", "Los archivos aún se están enviando."],
  failed: ["Remove the files that were not sent.", "Entfernen Sie die nicht gesendeten Dateien.", "Quite los archivos que no se enviaron."],
  most: ["A message can have at most {0} files.", "Eine Nachricht fasst höchstens {0} Dateien.", "Un mensaje admite como máximo {0} archivos."],

  empty: ["The file is empty.", "Die Datei ist leer.", "El archivo está vacío."],
  large: ["The file is larger than 20 MiB.", "Die Datei ist größer als 20 MiB.", "El archivo supera los 20 MiB."],
  type: [
    "This file type is not supported. Supported types are images, PDF, Office documents and text.",
    "Dieser Dateityp wird nicht unterstützt. Unterstützt werden Bilder, PDF, Office-Dokumente und Text.",
    "Este tipo de archivo no se admite. Se admiten imágenes, PDF, documentos de Office y texto.",
  ],
  unreadable: [
    "The file is damaged, or the image has more than 25 megapixels.",
    "Die Datei ist beschädigt, oder das Bild hat mehr als 25 Megapixel.",
    "El archivo está dañado o la imagen supera los 25 megapíxeles.",
  ],
  tooMany: ["Too many files. Try again {0}.", "Zu viele Dateien. Versuchen Sie es {0} noch einmal.", "Demasiados archivos. Inténtelo de nuevo {0}."],
  full: ["This chat can't accept more files right now.", "Dieser Chat nimmt zurzeit keine weiteren Dateien an.", "Este chat no admite más archivos por ahora."],
  gone: ["This chat no longer accepts files.", "Dieser Chat nimmt keine Dateien mehr an.", "Este chat ya no admite archivos."],
  unreachable: ["The file was not sent. Check your connection.", "Die Datei wurde nicht gesendet. Prüfen Sie die Verbindung.", "El archivo no se envió. Compruebe la conexión."],
  busy: ["Service busy. Try again {0}.", "Der Dienst ist ausgelastet. Versuchen Sie es {0} noch einmal.", "El servicio está ocupado. Inténtelo de nuevo {0}."],
} satisfies Record<string, Row>;
