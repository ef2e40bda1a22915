"""What messages say and show: texts, embeds, dialogs, pictures."""
