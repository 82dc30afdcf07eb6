"""SKILL.md files and rows become skills, and skills become chunks. Ray-free."""
