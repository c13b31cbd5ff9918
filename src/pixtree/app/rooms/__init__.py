"""The routes of the four rooms, and the door through which pictures come."""
