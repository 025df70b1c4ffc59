-- A note's text is its body, so a program that writes "text" works no more.
alter table notes.note rename column text to body
