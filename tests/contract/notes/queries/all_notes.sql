-- Every note.
select job from notes.note
