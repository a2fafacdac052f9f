"""Words that users have for each tool and its text has not: search hints, for rankers and never for the model."""

from __future__ import annotations

HINTS: dict[str, str] = {
    "list_directories": "what is inside a folder, ls, tree, contents of a directory, folder structure",
    "view_file": "open, read, print or look at a document, cat, display some lines of source code",
    "edit_file": "change or fix some words in a document, substitute a value with another, update a setting or config",
    "write_file": "save text to a new document, overwrite, store notes, make a file with content",
    "search_files": "grep, which files mention a word, key or name, where we use or define it, every TODO comment",
    "find_files": "locate documents, pictures or scripts by extension or file name, glob, where is the file called",
    "file_info": "how big or large, size in bytes, when last modified or touched, permissions, checksum, owner, stat",
    "move_file": "rename, give another name, put into another folder, mv, reorganize",
    "delete_file": "remove, get rid of, erase, throw away, clean up, rm",
    "create_directory": "make a new folder, mkdir",
    "tail_file": "end of a file, final or newest lines, latest entries",
    "diff_files": "differences between two versions or copies, what is different, compare documents",
}
